/* The kernels, as nvcc left them. Where they are not built, a word that only the tests' stand-in for the
 * driver takes for an image. */
#ifdef WORKER_FATBIN
__asm__(".section .rodata\n"
        ".balign 64\n"
        ".globl worker_image\n"
        ".hidden worker_image\n"
        "worker_image:\n"
        ".incbin \"" WORKER_FATBIN "\"\n"
        ".byte 0\n"
        ".previous\n");
#else
extern const unsigned char worker_image[];
const unsigned char worker_image[] = "blink";
#endif
