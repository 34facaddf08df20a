#include "engine/table/dense_table.h"

#include <cmath>
#include <limits>
#include <thread>

#include <gtest/gtest.h>

#include "tests/unit/engine/pserver/parameters.h"

namespace paddle::table {
namespace {

constexpr std::uint64_t kElements = 300 * 301;
constexpr std::uint64_t kLast = 7;

wire::ParameterSet large_set(const std::string& method) {
  auto set = test::small_set(method, 1, 1, 1);
  set.mutable_parameters(0)->clear_dims();
  set.mutable_parameters(0)->add_dims(kElements);
  set.mutable_parameters(1)->clear_dims();
  set.mutable_parameters(1)->add_dims(kLast);
  set.mutable_optimizer()->set_momentum(0.5F);
  set.mutable_optimizer()->mutable_average()->set_window(0.5F);
  return set;
}

// A helper that runs the last piece first, and each of the others in a thread of its own.
void by_threads(std::size_t count, const std::function<void(std::size_t)>& work) {
  work(count - 1);
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i + 1 < count; ++i) threads.emplace_back([&work, i] { work(i); });
}

TEST(DenseTable, ThreadsThatHelpGiveTheSameBits) {
  for (const char* const method : {"sgd", "momentum", "adagrad", "adadelta", "adam", "ftrl"}) {
    const auto set = large_set(method);
    std::size_t calls = 0;
    auto alone = DenseTable::create(set, 0, 1ULL << 30U);
    auto helped =
        DenseTable::create(set, 0, 1ULL << 30U, [&calls](std::size_t count, const auto& work) {
          ++calls;
          by_threads(count, work);
        });
    ASSERT_TRUE(alone && helped);
    ASSERT_EQ(alone->size(), kElements + kLast);
    std::vector<float> gradient(alone->size());
    for (int step = 1; step <= 3; ++step) {
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] = std::sin(static_cast<float>(i) * static_cast<float>(step));
      }
      alone->apply(0.1F, gradient);
      helped->apply(0.1F, gradient);
    }
    EXPECT_EQ(calls, 3U);
    const std::vector<float> before(alone->values().begin(), alone->values().end());
    EXPECT_EQ(before, std::vector<float>(helped->values().begin(), helped->values().end()));
    for (std::uint32_t plane = 1; plane <= alone->state_width(); ++plane) {
      for (const auto& [offset, count] :
           {std::pair(std::uint64_t{0}, kElements), std::pair(kElements, kLast)}) {
        const auto expected = *alone->read(plane, offset, count);
        const auto found = *helped->read(plane, offset, count);
        EXPECT_TRUE(std::ranges::equal(found, expected)) << method << ", plane " << plane;
      }
    }
    EXPECT_EQ(helped->update_count(0), 3U);
  }
}

TEST(DenseTable, NamesTheFirstParameterThatIsNotFinite) {
  const auto set = large_set("sgd");
  auto table = DenseTable::create(set, 0, 1ULL << 30U, by_threads);
  ASSERT_TRUE(table);
  std::vector<float> gradient(table->size(), 1);
  const std::span<const float> parts(gradient);
  EXPECT_EQ(table->find_above(1e18F, {&parts, 1}), "");
  gradient.back() = std::numeric_limits<float>::infinity();
  EXPECT_EQ(table->find_above(1e18F, {&parts, 1}), set.parameters(1).name());
  gradient[kElements - 1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(table->find_above(1e18F, {&parts, 1}), set.parameters(0).name());
}

}  // namespace
}  // namespace paddle::table
