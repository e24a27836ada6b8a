// GRS_EMU_WIDE before a function that works on vectors of 32 bytes: built for AVX2 and for any machine, the one that fits is chosen
// when the program starts. Not under sanitizers, whose run-time is not there yet when that is done.
#ifndef GRS_EMULATOR_WIDE_H
#define GRS_EMULATOR_WIDE_H

#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define GRS_EMU_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define GRS_EMU_WIDE
#endif

#endif
