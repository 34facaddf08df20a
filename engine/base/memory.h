// What the allocator does with large buffers.
#pragma once

namespace paddle {

// A server's and a trainer's buffers of up to 32 MiB come and go with every request: freed ones
// stay in the process, so that the kernel does not hand out and clear the same pages each time.
void keep_freed_memory();

}  // namespace paddle
