# A loop whose counts are known: 1 + 3 * 1000 + 3 instructions, 2000 branches of which 1999 are taken.
        .globl _start
        .text
        .balign 4096
_start: mov $1000, %ecx
# Each round: dec, jmp over a gap to the next line, jnz back; both lines hold for the whole run.
1:      dec %ecx
        jmp 2f
        .balign 64
2:      jnz 1b
        mov $60, %eax
        xor %edi, %edi
        syscall
