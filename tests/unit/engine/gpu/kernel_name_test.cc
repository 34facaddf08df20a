#include "engine/gpu/kernel_name.h"

#include <set>
#include <utility>

#include <gtest/gtest.h>

namespace paddle::device {
namespace {

using kernels::device::Kernel;

TEST(KernelName, IsThatOfTheSources) {
  EXPECT_EQ(name_of(kernels::device::Fill{}), "Fill");
  EXPECT_EQ(name_of(kernels::device::GatherBackward{}), "GatherBackward");
  EXPECT_EQ(name_of(kernels::device::SlopeSums{}), "ColumnSums<SlopeTerms>");
}

TEST(KernelName, NoTwoKernelsHaveOne) {
  std::set<std::string> names;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (names.insert(name_of(Kernel(std::in_place_index<I>))), ...);
  }
  (std::make_index_sequence<std::variant_size_v<Kernel>>());
  EXPECT_EQ(names.size(), std::variant_size_v<Kernel>);
}

}  // namespace
}  // namespace paddle::device
