// A kernel whose every instruction is known, for qemu's -kernel (multiboot): it maps itself into the upper half, runs a
// program in user mode that executes markers and system calls, prints on the serial port, and ends the machine with a
// triple fault. With the addresses below, system calls begin at UPPER + 0x202000, work() lies a page behind, held() two.
//
// Call 0: work(rdi)   1: print rsi bytes from rdi   2: held(rdi)   3: end
//
// With MODULE it says that work() and held() are a module's; with ONLY_MODULE it is this module's file alone.

#define UPPER 0xffffffff80000000

        .text
#ifndef ONLY_MODULE
        .code32
        .p2align 2
        .long 0x1badb002, 0, -0x1badb002
        .globl _start
_start:
        // 1 GiB from 0, for programs too; and the same from UPPER.
        movl $low + 7, top
        movl $high + 3, top + 511 * 8
        movl $0x87, low
        movl $0x83, high + 510 * 8
        mov $top, %eax
        mov %eax, %cr3
        mov %cr4, %eax
        or $0x20, %eax
        mov %eax, %cr4
        mov $0xc0000080, %ecx           // EFER: long mode, system calls
        rdmsr
        or $0x101, %eax
        wrmsr
        mov %cr0, %eax
        or $0x80000001, %eax
        mov %eax, %cr0
        lgdt descriptors
        ljmp $8, $long_mode

        .code64
long_mode:
        lea upper(%rip), %rax
        movabs $UPPER, %rcx
        add %rcx, %rax
        jmp *%rax
upper:
        mov $0xc0000081, %ecx           // STAR: the segments of system calls
        xor %eax, %eax
        mov $0x00100008, %edx
        wrmsr
        mov $0xc0000082, %ecx           // LSTAR: where they begin
        lea entry(%rip), %rax
        mov %rax, %rdx
        shr $32, %rdx
        wrmsr
#ifdef FAULTS
        // Gate 6, for instructions that there are not.
        lea invalid(%rip), %rax
        mov %ax, gates + 6 * 16(%rip)
        movl $0x8e000008, gates + 6 * 16 + 2(%rip)
        shr $16, %rax
        mov %ax, gates + 6 * 16 + 6(%rip)
        shr $16, %rax
        mov %eax, gates + 6 * 16 + 8(%rip)
        lidt to_gates(%rip)
#endif
        mov $stack, %esp
        mov $user, %ecx
        mov $2, %r11d
        sysretq

        .p2align 12
entry:
        test %eax, %eax
        je work
        cmp $2, %eax
        je held
        ja end
        mov $0x3f8, %edx
print:
        mov (%rdi), %al
        out %al, %dx
        inc %rdi
        dec %rsi
        jne print
        sysretq
end:
        lidt none(%rip)
        int3
#endif

        .p2align 12
work:
        call nothing
#ifdef FAULTS
        ud2
#endif
        dec %rdi
        jne work
        sysretq
nothing:
        ret
#ifdef FAULTS
invalid:
        addq $2, (%rsp)
        iretq
#endif

        .p2align 12
held:
        dec %rdi
        jne held
        sysretq
#ifdef ONLY_MODULE
        .section .modinfo, "a"
        .asciz "license=GPL"
#else

        .macro marker section
        .byte 0x0f, 0x1f, 0x84, 0x00
        .long 0x504c0000 + \section
        .endm

        .macro do number, argument
        mov $\number, %eax
        mov $\argument, %edi
        syscall
        .endm

        .macro say text
        .pushsection .rodata
7:      .ascii "\text"
8:      .popsection
        mov $8b - 7b, %esi
        do 1, 7b
        .endm

        .p2align 12
user:
#ifdef MODULE
        say "planish-text ffffffff80201000 ffffffff80203000\r\n"
        say "planish-module loops 8192 0 - Live 0xffffffff80203000 040000000400000003000000474e550005060708\r\n"
#else
        say "\033[2Jplanish-text ffffffff80201000 ffffffff80210000\r\n"
#endif
        say "planish-notes 040000000400000003000000474e550001020304\n"
#ifdef LATER
        say "planish: begin 2\n"
#else
        say "planish: begin 1\n"
#endif
        say "planish: section 1 train calls\n"
        marker 1
        do 0, 100
        marker 0
        do 0, 10
        say "planish: section 101 held loops\n"
        marker 101
        do 2, 50
        marker 0
        marker 1
        do 0, 100
        marker 0
        say "planish: result 1 200 5000\n"
#ifdef FAILS
        say "planish: failed 101 no such thing\n"
#endif
#ifdef PANICS
        say "Kernel panic - not syncing: out of cheese\n"
        say "Call Trace: work\n---[ end Kernel panic - not syncing: out of cheese ]---\n"
#endif
#if defined(HANGS) || defined(PANICS) || defined(FAILS) || defined(LATER)
        jmp .
#endif
#ifdef CHATTERS
1:      say "x"
        jmp 1b
#endif
#ifndef STOPS
        say "planish: end\n"
#endif
        do 3, 0

        .section .rodata
        .p2align 3
segments:
        .quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff, 0x00cff2000000ffff, 0x00affa000000ffff
descriptors:
        .word . - segments - 1
        .long segments
none:
        .fill 10, 1, 0
to_gates:
        .word 7 * 16 - 1
        .long gates, 0

#ifdef IMAGE
        // By this section a file is known as a kernel.
        .section __ksymtab, "a"
        .quad 0
#endif

        .bss
        .p2align 12
top:    .skip 4096
low:    .skip 4096
high:   .skip 4096
gates:  .skip 4096
stack:
#endif
