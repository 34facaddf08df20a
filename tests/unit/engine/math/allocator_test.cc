#include "engine/math/allocator.h"

#include <new>

#include <gtest/gtest.h>

namespace paddle {
namespace {

TEST(MemoryTest, AProcessWithoutMemoryEndsWithOneClearLine) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have an allocator of their own";
#endif
  EXPECT_EXIT(
      {
        end_when_out_of_memory("pserver-3", "use more pservers");
        [[maybe_unused]] void* volatile none = ::operator new (std::size_t{1} << 62U);
      },
      testing::ExitedWithCode(7),
      "^paddle: pserver-3 is out of memory\nhint: use more pservers\n$");
}

TEST(MemoryTest, ParametersMayTakeMostOfWhatThereIs) {
  EXPECT_LT(parameter_memory_bytes(), usable_memory_bytes());
}

}  // namespace
}  // namespace paddle
