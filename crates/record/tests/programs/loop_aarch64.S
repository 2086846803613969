# The same loop as loop.S: 1 + 3 * 1000 + 3 instructions, 2000 branches of which 1999 are taken.
        .globl _start
        .text
        .balign 4096
_start: mov w1, #1000
1:      subs w1, w1, #1
        b 2f
        .balign 64
2:      b.ne 1b
        mov x8, #93
        mov x0, #0
        svc #0
