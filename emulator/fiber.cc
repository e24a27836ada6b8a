#include "emulator/fiber.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define EMU_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMU_ASAN 1
#endif
#endif

#ifdef EMU_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace emu {

#if defined(__x86_64__)
// Saves what the System V ABI asks a callee to keep and swaps stacks. The control words of SSE and x87 are never changed.
extern "C" void emu_switch_stack(void **save, void *load);
extern "C" void emu_first_call();
asm(R"(
    .text
    .globl emu_switch_stack
    .hidden emu_switch_stack
    .type emu_switch_stack, @function
emu_switch_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size emu_switch_stack, .-emu_switch_stack
    .globl emu_first_call
    .hidden emu_first_call
    .type emu_first_call, @function
emu_first_call:
    movq %r13, %rdi
    callq *%r12
    ud2
    .size emu_first_call, .-emu_first_call
)");

static void *first_frame(char *top, void (*entry)(void *), void *argument) {
    void **slot = reinterpret_cast<void **>(top) - 8; // r15 r14 r13 r12 rbx rbp, return address, padding
    memset(slot, 0, 8 * sizeof(*slot));
    slot[2] = argument;
    slot[3] = reinterpret_cast<void *>(entry);
    slot[6] = reinterpret_cast<void *>(&emu_first_call); // entered with the stack aligned to 16, ready for its call
    return slot;
}
#elif defined(__aarch64__)
extern "C" void emu_switch_stack(void **save, void *load);
extern "C" void emu_first_call();
asm(R"(
    .text
    .globl emu_switch_stack
    .hidden emu_switch_stack
    .type emu_switch_stack, %function
emu_switch_stack:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size emu_switch_stack, .-emu_switch_stack
    .globl emu_first_call
    .hidden emu_first_call
    .type emu_first_call, %function
emu_first_call:
    mov x0, x20
    blr x19
    brk #0
    .size emu_first_call, .-emu_first_call
)");

static void *first_frame(char *top, void (*entry)(void *), void *argument) {
    void **slot = reinterpret_cast<void **>(top) - 20;
    memset(slot, 0, 20 * sizeof(*slot));
    slot[0] = reinterpret_cast<void *>(entry);
    slot[1] = argument;
    slot[11] = reinterpret_cast<void *>(&emu_first_call);
    return slot;
}
#else
static void split_call(unsigned entry_high, unsigned entry_low, unsigned argument_high, unsigned argument_low) {
    uintptr_t entry = static_cast<uintptr_t>(static_cast<uint64_t>(entry_high) << 32 | entry_low);
    uintptr_t argument = static_cast<uintptr_t>(static_cast<uint64_t>(argument_high) << 32 | argument_low);
    reinterpret_cast<void (*)(void *)>(entry)(reinterpret_cast<void *>(argument));
}
#endif

stack_pool::~stack_pool() {
    if (base_)
        munmap(base_, total_);
}

bool stack_pool::reserve(size_t count, size_t bytes_each) {
    if (base_)
        munmap(base_, total_);
    size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    // A guarded stack is two mappings, and Linux allows 65530 a process: beyond that stacks lie side by side.
    guard_ = count <= 24000 ? page : 0;
    stride_ = (bytes_each + page - 1) / page * page + guard_;
    total_ = stride_ * count;
    void *memory = mmap(nullptr, total_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    base_ = memory == MAP_FAILED ? nullptr : static_cast<char *>(memory);
    for (size_t i = 0; base_ && guard_ && i < count; ++i)
        mprotect(base_ + i * stride_, guard_, PROT_NONE);
    return base_ != nullptr;
}

void fiber_prepare(fiber &f, char *stack, size_t bytes, void (*entry)(void *), void *argument) {
    f.stack = stack;
    f.stack_bytes = bytes;
    f.sanitizer_stack = nullptr;
#ifdef EMU_ASAN
    __asan_unpoison_memory_region(stack, bytes); // a fiber that never returned may have lain here before
#endif
#if defined(__x86_64__) || defined(__aarch64__)
    f.stack_pointer = first_frame(stack + bytes, entry, argument);
#else
    uint64_t e = reinterpret_cast<uintptr_t>(entry), a = reinterpret_cast<uintptr_t>(argument);
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = stack;
    f.context.uc_stack.ss_size = bytes;
    f.context.uc_link = nullptr;
    makecontext(&f.context, reinterpret_cast<void (*)()>(split_call), 4, static_cast<unsigned>(e >> 32),
                static_cast<unsigned>(e), static_cast<unsigned>(a >> 32), static_cast<unsigned>(a));
#endif
}

#ifdef EMU_ASAN
static const void *main_stack;
static size_t main_stack_bytes;
static fiber *came_from, *going_to;

static void arrived(void *saved) {
    const void *bottom;
    size_t size;
    __sanitizer_finish_switch_fiber(saved, &bottom, &size);
    if (!came_from->stack) { // the OS thread's own stack is known only once it has been left
        main_stack = bottom;
        main_stack_bytes = size;
    }
}
#endif

void fiber_switch(fiber &from, fiber &to, bool last) {
#ifdef EMU_ASAN
    came_from = &from, going_to = &to;
    __sanitizer_start_switch_fiber(last ? nullptr : &from.sanitizer_stack, to.stack ? to.stack : main_stack,
                                   to.stack ? to.stack_bytes : main_stack_bytes);
#else
    (void)last;
#endif
#if defined(__x86_64__) || defined(__aarch64__)
    emu_switch_stack(&from.stack_pointer, to.stack_pointer);
#else
    swapcontext(&from.context, &to.context);
#endif
#ifdef EMU_ASAN
    arrived(from.sanitizer_stack);
#endif
}

void fiber_entered() {
#ifdef EMU_ASAN
    arrived(nullptr);
#endif
}

} // namespace emu
