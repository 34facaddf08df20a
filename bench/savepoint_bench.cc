// Cost of savepoints of one sparse table of 10 million rows: of updates before, during and after a
// savepoint, of taking the savepoint, and of restoring a table from it. In CPU time of one thread.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "base/rng.h"
#include "bench/warm_memory.h"
#include "engine/table/sparse_table.h"

namespace paddle {
namespace {

constexpr std::size_t kPushIds = 100'000;
constexpr std::uint64_t kPartBytes = 1U << 20U;
constexpr std::size_t kRestoredGib = 3;

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

template <class Work>
double seconds_of(const Work& work) {
  const double begin = cpu_seconds();
  work();
  return cpu_seconds() - begin;
}

wire::ParameterSet one_table(std::uint64_t width, const char* method) {
  wire::ParameterSet set;
  set.set_seed(1);
  auto& spec = *set.add_parameters();
  spec.set_name("table");
  spec.add_dims(0);
  spec.add_dims(width);
  spec.set_sparse(true);
  spec.set_learning_rate(1);
  set.mutable_optimizer()->set_method(method);
  set.mutable_optimizer()->set_learning_rate(1);
  set.set_sparse_shards(1);
  return set;
}

class Trained {
 public:
  Trained(const wire::ParameterSet& set, std::uint64_t rows, bool tracks)
      : rows_(rows),
        ids_(kPushIds),
        gradients_(kPushIds * set.parameters(0).dims(1)),
        table(set, 0) {
    if (tracks) table.track_savepoints();
    for (std::uint64_t done = 0; done < rows; done += kPushIds) {
      for (std::size_t i = 0; i < kPushIds; ++i) ids_[i] = mix64(done + i);
      push();
    }
  }
  // One push of random rows, in nanoseconds a row.
  double update() {
    for (std::uint64_t& id : ids_) id = mix64(rng_.below(rows_));
    return seconds_of([this] { push(); }) * 1e9 / kPushIds;
  }

 private:
  void push() {
    if (!table.reserve(kPushIds)) std::abort();
    table.apply(1, ids_, gradients_);
  }

  std::uint64_t rows_;
  std::vector<std::uint64_t> ids_;
  std::vector<float> gradients_;
  Rng rng_{7};

 public:
  table::SparseTable table;
};

std::vector<Bytes> take(table::SparseTable& table, double& longest) {
  std::vector<Bytes> parts;
  longest = 0;
  for (bool is_over = false; !is_over;) {
    const double seconds = seconds_of([&] {
      auto part = table.take_savepoint(kPartBytes);
      is_over = !part;
      if (part && !part->empty()) parts.push_back(std::move(*part));
    });
    longest = std::max(longest, seconds);
  }
  table.end_savepoint();
  return parts;
}

double median(std::vector<double> of) {
  const auto middle = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2);
  std::ranges::nth_element(of, middle);
  return *middle;
}

bool run(std::uint64_t width, const char* method, std::uint64_t rows) {
  const auto set = one_table(width, method);
  Trained plain(set, rows, false);
  Trained tracked(set, rows, true);
  table::SparseTable& table = tracked.table;
  std::printf("%s, dim %lu, %lu rows\n", method, width, rows);
  std::vector<double> without;
  std::vector<double> with;
  std::vector<double> more;
  for (int i = 0; i < 200; ++i) {
    without.push_back(plain.update());
    with.push_back(tracked.update());
    more.push_back(with.back() - without.back());
  }
  std::printf("  update: %.1f ns a row without savepoints, %.1f between savepoints, %.1f more\n",
              median(without), median(with), median(more));
  double longest = 0;
  double begin = seconds_of([&] { table.begin_savepoint(true); });
  with.clear();
  for (int i = 0; i < 40; ++i) with.push_back(tracked.update());
  const double staging = median(with);
  const double full = seconds_of([&] { take(table, longest); });
  std::printf(
      "  full savepoint: begin %.2f ms, then updates %.1f ns a row, the rest in %.2f s, longest "
      "take %.2f ms\n",
      begin * 1e3, staging, full, longest * 1e3);
  for (int i = 0; i < 20; ++i) tracked.update();
  begin = seconds_of([&] { table.begin_savepoint(false); });
  const std::uint64_t in_savepoint = table.savepoint_rows_left();
  std::vector<Bytes> parts;
  const double delta = seconds_of([&] { parts = take(table, longest); });
  std::printf("  savepoint of %lu rows: begin %.2f ms, taken in %.3f s, longest take %.2f ms\n",
              in_savepoint, begin * 1e3, delta, longest * 1e3);
  table.begin_savepoint(true);
  parts = take(table, longest);
  std::uint64_t bytes = 0;
  for (const Bytes& part : parts) bytes += part.size();
  if (!bench::WarmMemory(kRestoredGib).ready()) return false;
  table::SparseTable restored(set, 0);
  restored.track_savepoints();
  bool good = true;
  const double seconds = seconds_of([&] {
    for (const Bytes& part : parts) good = good && restored.restore_savepoint(part);
  });
  good = good && restored.check_restored() && restored.rows() == rows;
  std::printf("  restored: %.2f s, %.1f million rows/s, %.0f MB/s%s\n", seconds,
              static_cast<double>(rows) / seconds / 1e6, static_cast<double>(bytes) / seconds / 1e6,
              good ? "" : "  WRONG RESULT");
  return good;
}

}  // namespace
}  // namespace paddle

// savepoint_bench [rows]
int main(int argc, char** argv) {
  const std::uint64_t rows = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10'000'000;
  bool good = true;
  good = paddle::run(8, "sgd", rows) && good;
  good = paddle::run(10, "adam", rows) && good;
  return good ? 0 : 1;
}
