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

std::vector<Bytes> dense_savepoint_of(const DenseTable& table, std::uint64_t bytes_max) {
  std::vector<Bytes> parts;
  for (std::uint64_t from = 0; from < table.size();) {
    auto part = table.take_savepoint(from, bytes_max);
    EXPECT_GT(part.next, from);
    EXPECT_LE(part.bytes.size(), bytes_max + 1000);
    from = part.next;
    parts.push_back(std::move(part.bytes));
  }
  return parts;
}

TEST(DenseTable, ASavepointRestoresValuesStateAndUpdates) {
  for (const char* const method : {"sgd", "momentum", "adam", "ftrl"}) {
    auto set = large_set(method);
    set.mutable_parameters(1)->set_is_static(true);  // its block has had no update
    auto table = DenseTable::create(set, 0, 1ULL << 30U);
    ASSERT_TRUE(table);
    std::vector<float> gradient(table->size());
    for (int step = 1; step <= 3; ++step) {
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] = std::cos(static_cast<float>(i) * static_cast<float>(step));
      }
      table->apply(0.1F, gradient);
    }
    for (const std::uint64_t bytes_max : {1ULL << 15U, 8ULL << 20U}) {
      auto restored = DenseTable::create(set, 0, 1ULL << 30U);
      auto twin = *table;
      for (const Bytes& part : dense_savepoint_of(*table, bytes_max)) {
        ASSERT_TRUE(restored->restore_savepoint(part));
      }
      EXPECT_EQ(restored->update_count(0), 3U);
      EXPECT_EQ(restored->update_count(kElements), 0U);
      for (const char* const when : {"restored", "updated"}) {
        EXPECT_EQ(dense_savepoint_of(*restored, 1U << 20U), dense_savepoint_of(twin, 1U << 20U))
            << method << " " << when;
        EXPECT_TRUE(std::ranges::equal(restored->values(), twin.values()));
        restored->apply(0.1F, gradient);
        twin.apply(0.1F, gradient);
      }
    }
  }
}

TEST(DenseTable, AMalformedPartOfASavepointIsRefused) {
  auto set = large_set("adam");
  set.mutable_parameters(0)->set_dims(0, 5);
  auto table = DenseTable::create(set, 0, 1ULL << 30U);
  ASSERT_TRUE(table);
  const auto part = table->take_savepoint(0, 1U << 20U);
  ASSERT_EQ(part.next, 5 + kLast);
  const std::size_t first_piece = 24 + 5 * 4 * (1 + table->state_width());
  const auto refuses = [&](const Bytes& bytes) {
    const Status status = table->restore_savepoint(bytes);
    return !status && status.error().code == Errc::kData;
  };
  for (std::size_t size = 1; size < part.bytes.size(); ++size) {
    const Bytes some(part.bytes.begin(), part.bytes.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(refuses(some), size != first_piece) << size;
  }
  for (const std::uint64_t wrong : {std::uint64_t{6}, 5 + kLast, ~std::uint64_t{0} / 4}) {
    Bytes count = part.bytes;
    store_le(count.data() + 8, wrong);
    EXPECT_TRUE(refuses(count)) << wrong;
  }
  for (const std::uint64_t wrong : {std::uint64_t{1}, 5 + kLast, ~std::uint64_t{0}}) {
    Bytes offset = part.bytes;
    store_le(offset.data(), wrong);
    EXPECT_TRUE(refuses(offset)) << wrong;
  }
}

}  // namespace
}  // namespace paddle::table
