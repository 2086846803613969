// The kernel of machine.S for qemu's Arm machine `virt`: it maps itself into the upper half, runs a program at EL0 that
// executes markers and system calls, prints on the serial port, and ends the machine by PSCI. With the addresses below,
// exceptions begin at UPPER + 0x40202000, system calls 0x400 behind, work() lies a page behind that page, held() two.
//
// Call x8 = 0: work(x0)   1: print x1 bytes from x0   2: held(x0)   3: end

        .text
        .globl _start
_start:
        // From 1 GiB on, read-only, for programs too; and the first two GiB from UPPER, devices first.
        adrp x0, low
        adrp x1, high
        movz x2, #0x04c5
        movk x2, #0x4000, lsl #16
        str x2, [x0, #8]
        mov x2, #0x401
        str x2, [x1]
        movz x2, #0x0405
        movk x2, #0x4000, lsl #16
        str x2, [x1, #8]
        msr ttbr0_el1, x0
        msr ttbr1_el1, x1
        mov x2, #0xff00                 // MAIR: 0 is a device, 1 memory
        msr mair_el1, x2
        movz x2, #25                    // TCR: both halves of 39 bits, in pages of 4 KiB
        movk x2, #0x8019, lsl #16
        msr tcr_el1, x2
        isb
        mrs x2, sctlr_el1
        orr x2, x2, #1
        msr sctlr_el1, x2
        isb
        movz x10, #0xff80, lsl #32      // UPPER, which stays there
        movk x10, #0xffff, lsl #48
        adr x2, upper
        add x2, x2, x10
        br x2
upper:
        adrp x2, vectors
        msr vbar_el1, x2
        mov x2, #0x3c0                  // EL0, without interrupts
        msr spsr_el1, x2
        adrp x2, user
        sub x2, x2, x10
        msr elr_el1, x2
        eret

        .p2align 12
vectors:
        .skip 0x400
entry:
        cbz x8, work
        cmp x8, #2
        b.eq held
        b.hi end
        movz x9, #0x0900, lsl #16
        add x9, x9, x10
        add x0, x0, x10
print:
        ldrb w2, [x0], #1
        str w2, [x9]
        subs x1, x1, #1
        b.ne print
        eret
end:
        movz w0, #0x0009                // SYSTEM_RESET
        movk w0, #0x8400, lsl #16
        hvc #0
        b .

        .p2align 12
work:
        bl nothing
        subs x0, x0, #1
        b.ne work
        eret
nothing:
        ret

        .p2align 12
held:
        subs x0, x0, #1
        b.ne held
        eret

        .macro marker section
        movk xzr, #0x4c00 + \section, lsl #48
        .endm

        .macro do number, argument
        mov x8, #\number
        mov x0, #\argument
        svc #0
        .endm

        .macro say text
        .pushsection .rodata
7:      .ascii "\text"
8:      .popsection
        adrp x0, 7b
        add x0, x0, :lo12:7b
        mov x8, #1
        mov x1, #8b - 7b
        svc #0
        .endm

        .p2align 12
user:
        say "planish-text ffffff8040201000 ffffff8040210000 _stext\r\n"
        say "planish-notes 040000000400000003000000474e550001020304\n"
        say "planish: begin 1\n"
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
        say "planish: end\n"
        do 3, 0

        .bss
        .p2align 12
low:    .skip 4096
high:   .skip 4096
