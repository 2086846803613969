/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The instruction that shows an emulator where a section begins: it does nothing, needs no privilege, and no compiler writes it. */
#ifndef PLANISH_MARKER_H
#define PLANISH_MARKER_H

#if defined(__x86_64__)
/* nopl DISP32(%rax,%rax,1), of eight bytes. */
#define MARK(number)                                                                                \
    __asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00\n\t.long %c0" : : "i"(0x504c0000 + (number)) : "memory")
#elif defined(__aarch64__)
/* What is written to this register is lost. */
#define MARK(number)                                                                                \
    __asm__ volatile("movk xzr, #%c0, lsl #48" : : "i"(0x4c00 + (number)) : "memory")
#else
#error "the workload is for x86-64 and arm64: its markers are instructions of those"
#endif

#endif
