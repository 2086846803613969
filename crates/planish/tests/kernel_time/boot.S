// A boot image of Linux's form (Documentation/arch/x86/boot.rst) that is a kernel of a few instructions: in real mode it
// prints on the serial port what the workload would, with the nanoseconds that it was assembled with, and resets.
//
// clang -m16 -nostdlib -static -fuse-ld=lld -Wl,--image-base=0,-Ttext=0,--oformat=binary,--build-id=none \
//     -DOPERATIONS='"200"' -DTRAIN='"5000"' -DHELD='"7000"' boot.S
//
// All of it is what the boot protocol calls set-up. It lies where DS points, and runs 0x200 bytes into that.

        .code16
        .text
        .globl _start
_start:
        .org 0x1f1
        .byte 3                         // sectors of the set-up behind the first
        .word 0
        .long 1                         // the rest, in 16 bytes
        .word 0, 0xffff, 0, 0xaa55
        jmp begin
        .org 0x202
        .ascii "HdrS"
        .word 0x203                     // version of the protocol
        .long 0
        .word 0, 0
        .byte 0, 1                      // loaded high
        .word 0
        .long 0x100000, 0, 0, 0
        .word 0
        .byte 0, 0
        .long 0, 0x37ffffff

begin:
        cld
        mov $text, %si
        mov $end - text, %cx
print:
        mov $0x3fd, %dx                 // until the port takes a byte
        in (%dx), %al
        test $0x20, %al
        je print
        mov $0x3f8, %dx
        lodsb
        out %al, (%dx)
        loop print
#ifdef HANGS
        jmp .
#endif
        mov $0xfe, %al                  // the keyboard controller resets the machine
        out %al, $0x64
        jmp .

text:
        .ascii "planish: begin 1\n"
        .ascii "planish: section 1 train calls\n"
#ifdef FAILS
        .ascii "planish: failed 1 no such thing\n"
#endif
        .ascii "planish: result 1 " OPERATIONS " " TRAIN "\n"
        .ascii "planish: section 101 held loops\n"
        .ascii "planish: result 101 50 " HELD "\n"
#ifdef SILENT
        .ascii "planish: section 102 held silence\n"
#endif
#ifndef HANGS
        .ascii "planish: end\n"
#endif
end:
        .org 0x800
        .fill 16, 1, 0                  // the rest
