// Speed of one core at finding, copying, inserting and updating rows, and memory per row: one
// sparse table without the network, beside the simplest possible table; and the longest wait of a
// read while a table grows. Every result is verified.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "base/rng.h"
#include "bench/warm_memory.h"
#include "engine/math/region.h"
#include "engine/math/row_access.h"
#include "engine/table/sparse_table.h"

namespace paddle {
namespace {

constexpr std::size_t kRequestIds = 100'000;
constexpr double kMeasureSeconds = 2;

// CPU time of this thread: the figures are per core.
double cpu_seconds(clockid_t clock = CLOCK_THREAD_CPUTIME_ID) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// The part of it spent in the kernel, which allocates and clears pages.
double kernel_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return static_cast<double>(usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_stime.tv_usec) * 1e-6;
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

// Row k of the table has id mix64(k), and its value is minus the sum of its gradients, all equal.
std::uint64_t id_of(std::uint64_t k) {
  return mix64(k);
}

// The simplest possible table, for comparison: ids and row numbers in linearly probed slots, three
// in five of them used (27 bytes per row), and rows in another array. It neither grows nor removes
// rows.
class BareTable {
 public:
  BareTable(std::uint64_t width, std::uint64_t rows) : width_(width), slots_(rows * 5 / 3) {
    if (!index_.reserve(slots_ * sizeof(Slot)) || !rows_.reserve(rows * width * sizeof(float))) {
      std::abort();
    }
    for (std::uint64_t k = 0; k < rows; ++k) {
      std::uint64_t at = home(id_of(k));
      while (slot(at).number != 0) at = at + 1 == slots_ ? 0 : at + 1;
      slot(at) = {id_of(k), k + 1};
      row(k)[0] = static_cast<float>(k % 4096);
    }
  }
  void read(std::span<const std::uint64_t> ids, std::span<float> to) {
    std::array<std::uint64_t, kBlock> found;
    for (std::size_t begin = 0; begin < ids.size(); begin += kBlock) {
      const auto part = ids.subspan(begin, std::min(kBlock, ids.size() - begin));
      for (std::size_t i = 0; i < part.size(); ++i) found[i] = home(part[i]);
      for (std::size_t i = 0; i < part.size(); ++i) load_line(&slot(found[i]));
      for (std::size_t i = 0; i < part.size(); ++i) {
        std::uint64_t at = found[i];
        while (slot(at).id != part[i]) at = at + 1 == slots_ ? 0 : at + 1;
        found[i] = slot(at).number - 1;
      }
      for (std::size_t i = 0; i < part.size(); ++i) load_line(row(found[i]));
      for (std::size_t i = 0; i < part.size(); ++i) {
        std::copy_n(row(found[i]), width_, to.data() + (begin + i) * width_);
      }
    }
  }

 private:
  static constexpr std::size_t kBlock = 512;
  struct Slot {
    std::uint64_t id;
    std::uint64_t number;  // row number plus 1; 0: a free slot
  };
  std::uint64_t home(std::uint64_t id) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(mix64(id)) * slots_) >> 64U);
  }
  Slot& slot(std::uint64_t at) const { return reinterpret_cast<Slot*>(index_.data())[at]; }
  float* row(std::uint64_t number) const {
    return reinterpret_cast<float*>(rows_.data()) + number * width_;
  }

  std::uint64_t width_;
  std::uint64_t slots_;
  MemoryRegion index_{0};
  MemoryRegion rows_{0};
};

// Warm memory released ahead of the table, which uses it in the next seconds.
constexpr std::uint64_t kReleasedAhead = 256U << 20U;

bool run(std::uint64_t width, std::uint64_t rows, std::size_t warm_gib) {
  bench::WarmMemory warm(warm_gib);
  if (!warm.ready()) return false;
  const auto set = one_table(width, "sgd");
  const auto preparer = make_memory_preparer();
  table::SparseTable table(set, 0, {}, preparer.get());
  std::vector<std::uint64_t> ids(kRequestIds);
  std::vector<float> values(kRequestIds * width);
  double seconds = 0;
  double in_kernel = 0;
  double of_process = 0;
  for (std::uint64_t done = 0; done < rows; done += ids.size()) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ids[i] = id_of(done + i);
      values[i * width] = -static_cast<float>((done + i) % 4096);
    }
    warm.release(table.bytes() + kReleasedAhead);
    seconds -= cpu_seconds();
    in_kernel -= kernel_seconds();
    of_process -= cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
    if (!table.reserve(ids.size())) return false;
    table.apply(1, ids, values);
    seconds += cpu_seconds();
    in_kernel += kernel_seconds();
    of_process += cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
  }
  const auto inserted = static_cast<double>(table.rows());
  const double insert = inserted / seconds;
  const double in_all = inserted / of_process;
  const double outside_kernel = inserted / (seconds - in_kernel);

  Rng rng(7);
  constexpr std::size_t kRequests = 20;
  std::vector<std::vector<std::uint64_t>> numbers(kRequests);
  std::vector<std::vector<std::uint64_t>> requests(kRequests);
  for (std::size_t r = 0; r < kRequests; ++r) {
    for (std::size_t i = 0; i < kRequestIds; ++i) {
      numbers[r].push_back(rng.below(rows));
      requests[r].push_back(id_of(numbers[r].back()));
    }
  }
  std::vector<float> to(kRequestIds * width);
  const auto rate = [&](auto&& step) {
    std::vector<double> times;
    const double begin_of_all = cpu_seconds();
    for (double now = begin_of_all; now - begin_of_all < kMeasureSeconds;) {
      const double begin = now;
      step(times.size() % kRequests);
      now = cpu_seconds();
      times.push_back(now - begin);
    }
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return static_cast<double>(kRequestIds) / *middle;
  };
  // The current speed of this machine: copies the same rows by number, without an index.
  MemoryRegion plain(0);
  if (!plain.reserve(rows * width * sizeof(float))) return false;
  auto* const from = reinterpret_cast<float*>(plain.data());
  for (std::uint64_t i = 0; i < rows * width; ++i) from[i] = static_cast<float>(i);
  const double gather = rate([&](std::size_t r) {
    constexpr std::size_t kAhead = 32;
    for (std::size_t i = 0; i < kRequestIds; ++i) {
      if (i + kAhead < kRequestIds) __builtin_prefetch(from + numbers[r][i + kAhead] * width);
      std::copy_n(from + numbers[r][i] * width, width, to.data() + i * width);
    }
  });
  std::size_t last = 0;
  bool good = true;
  const auto check = [&] {
    for (std::size_t i = 0; i < kRequestIds; ++i) {
      good = good && to[i * width] == static_cast<float>(numbers[last][i] % 4096) &&
             to[i * width + width - 1] == (width == 1 ? to[i * width] : 0.0F);
    }
  };
  const double bare = [&] {
    BareTable table_alone(width, rows);
    const double result = rate([&](std::size_t r) { table_alone.read(requests[last = r], to); });
    check();
    return result;
  }();
  const double read = rate([&](std::size_t r) { table.read(requests[last = r], to); });
  check();
  const double copy_of_absent = rate([&](std::size_t r) { table.read(std::span(numbers[r]), to); });
  std::fill(values.begin(), values.end(), 0.0F);
  const double update = rate([&](std::size_t r) { table.apply(1, requests[r], values); });
  good = good && table.rows() == rows;
  const double per_row = static_cast<double>(table.bytes() - table.payload_bytes()) /
                         static_cast<double>(table.rows());
  std::printf(
      "dim %3lu, %9lu rows: insert %5.1f (%5.1f without page faults, %5.1f of the CPU time "
      "of both threads), read %5.1f, read of absent "
      "ids %5.1f, sgd update %5.1f, "
      "read of a bare table %5.1f, copy without index %5.1f million rows/s; %.2f bytes a row "
      "beside the payload%s\n",
      width, rows, insert / 1e6, outside_kernel / 1e6, in_all / 1e6, read / 1e6,
      copy_of_absent / 1e6, update / 1e6, bare / 1e6, gather / 1e6, per_row,
      good ? "" : "  WRONG RESULT");
  return good;
}

// Arithmetic without memory: when this takes long, the host has paused this machine.
std::uint64_t compute() {
  constexpr int kSteps = 10'000;
  std::uint64_t x = 1;
  for (int i = 0; i < kSteps; ++i) x = mix64(x);
  return x;
}

// Alternating pushes of new rows and reads, as a port serves them: the longest of each, and of one
// pair, which bounds the wait of a read. In between, it measures the same reads of memory that does
// not grow, and arithmetic: if those take long too, the table is not the cause.
bool pauses(std::uint64_t width, std::uint64_t rows, std::size_t warm_gib) {
  bench::WarmMemory warm(warm_gib);
  if (!warm.ready()) return false;
  constexpr std::size_t kIds = 1000;
  const auto set = one_table(width, "sgd");
  const auto preparer = make_memory_preparer();
  table::SparseTable table(set, 0, {}, preparer.get());
  std::vector<std::uint64_t> ids(kIds);
  std::vector<std::uint64_t> known(kIds);
  std::vector<float> gradients(kIds * width, -1.0F);
  std::vector<float> values(kIds * width);
  MemoryRegion plain(0);
  if (!plain.reserve(rows * width * sizeof(float))) return false;
  auto* const from = reinterpret_cast<float*>(plain.data());
  std::fill_n(from, rows * width, 1.0F);
  Rng rng(11);
  double longest_push = 0;
  std::uint64_t longest_at = 0;  // rows
  double longest_read = 0;
  double longest_both = 0;
  double longest_plain = 0;
  double longest_compute = 0;
  constexpr double kLong = 10e-3;  // seconds
  std::size_t long_reads = 0;
  std::size_t long_pushes = 0;
  std::size_t long_plains = 0;
  std::size_t long_computes = 0;
  std::vector<double> reads;
  bool good = true;
  const std::uint64_t computed = compute();
  for (std::uint64_t done = 0; done < rows; done += kIds) {
    for (std::size_t i = 0; i < kIds; ++i) ids[i] = id_of(done + i);
    for (std::uint64_t& id : known) id = id_of(rng.below(done + kIds));
    warm.release(table.bytes() + kReleasedAhead);
    const double start = cpu_seconds();
    if (!table.reserve(kIds)) return false;
    table.apply(1, ids, gradients);
    const double pushed = cpu_seconds();
    table.read(known, values);
    const double end = cpu_seconds();
    good = good && std::all_of(values.begin(), values.end(), [](float v) { return v == 1.0F; });
    for (std::uint64_t& id : known) id = rng.below(rows);
    const double plain_start = cpu_seconds();
    for (std::size_t i = 0; i < kIds; ++i) {
      std::copy_n(from + known[i] * width, width, values.data() + i * width);
    }
    const double plain_end = cpu_seconds();
    longest_plain = std::max(longest_plain, plain_end - plain_start);
    long_plains += plain_end - plain_start > kLong ? 1 : 0;
    good = good && compute() == computed;
    const double computing = cpu_seconds() - plain_end;
    longest_compute = std::max(longest_compute, computing);
    long_pushes += pushed - start > kLong ? 1 : 0;
    long_reads += end - pushed > kLong ? 1 : 0;
    long_computes += computing > kLong ? 1 : 0;
    if (pushed - start > longest_push) {
      longest_push = pushed - start;
      longest_at = done;
    }
    longest_read = std::max(longest_read, end - pushed);
    longest_both = std::max(longest_both, end - start);
    reads.push_back(end - pushed);
    good = good && std::all_of(values.begin(), values.end(), [](float v) { return v == 1.0F; });
  }
  good = good && table.rows() == rows;
  const auto middle = reads.begin() + static_cast<std::ptrdiff_t>(reads.size() / 2);
  std::nth_element(reads.begin(), middle, reads.end());
  std::printf(
      "dim %3lu, growing to %9lu rows, 1000 ids a request: longest push %.2f ms (at %lu rows), "
      "read %.2f ms, both %.2f ms, read of plain memory %.2f ms, arithmetic %.2f ms; above 10 ms "
      "were %zu pushes, %zu reads, %zu and %zu of the others; median "
      "read %.3f ms; %.2f bytes a row beside the payload%s\n",
      width, rows, longest_push * 1e3, longest_at, longest_read * 1e3, longest_both * 1e3,
      longest_plain * 1e3, longest_compute * 1e3, long_pushes, long_reads, long_plains,
      long_computes, *middle * 1e3,
      static_cast<double>(table.bytes() - table.payload_bytes()) /
          static_cast<double>(table.rows()),
      good ? "" : "  WRONG RESULT");
  return good;
}

}  // namespace
}  // namespace paddle

// sparse_table_bench [--warm_gib N] [rows]
// sparse_table_bench [--warm_gib N] pauses [rows, a multiple of 1000]: 100 million take 8 GB and
// the warm memory.
int main(int argc, char** argv) {
  std::size_t warm_gib = 0;
  if (argc > 2 && std::string(argv[1]) == "--warm_gib") {
    warm_gib = std::strtoull(argv[2], nullptr, 10);
    argc -= 2;
    argv += 2;
  }
  if (argc > 1 && std::string(argv[1]) == "pauses") {
    const std::uint64_t rows = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 100'000'000;
    return paddle::pauses(8, rows, warm_gib) ? 0 : 1;
  }
  const std::uint64_t rows = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10'000'000;
  bool good = true;
  // Rows of 10 floats begin anywhere in a cache line.
  for (const std::uint64_t width : {8U, 10U, 16U})
    good = paddle::run(width, rows, warm_gib) && good;
  return good ? 0 : 1;
}
