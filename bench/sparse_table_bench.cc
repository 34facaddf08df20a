// How fast one core finds and copies rows, inserts and updates them, and what a row costs in
// memory: one sparse table without the network; and how long a read waits at most while a table
// grows. Every result is verified.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "engine/base/rng.h"
#include "engine/pserver/sparse_table.h"

namespace paddle {
namespace {

constexpr std::size_t kRequestIds = 100'000;
constexpr double kMeasureSeconds = 2;

// The figures are per core, so what counts is the time that this thread had one.
double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// The part of it that the kernel took, which is to find and clear pages.
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

bool run(std::uint64_t width, std::uint64_t rows) {
  const auto set = one_table(width, "sgd");
  pserver::SparseTable table(set, 0);
  std::vector<std::uint64_t> ids(kRequestIds);
  std::vector<float> values(kRequestIds * width);
  const double start = cpu_seconds();
  const double kernel_start = kernel_seconds();
  for (std::uint64_t done = 0; done < rows; done += ids.size()) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ids[i] = id_of(done + i);
      values[i * width] = -static_cast<float>((done + i) % 4096);
    }
    if (!table.reserve(ids.size())) return false;
    table.apply(1, ids, values);
  }
  const double seconds = cpu_seconds() - start;
  const double insert = static_cast<double>(table.rows()) / seconds;
  const double outside_kernel =
      static_cast<double>(table.rows()) / (seconds - (kernel_seconds() - kernel_start));

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
    const double begin = cpu_seconds();
    std::size_t calls = 0;
    while (cpu_seconds() - begin < kMeasureSeconds) step(calls++ % kRequests);
    return static_cast<double>(calls * kRequestIds) / (cpu_seconds() - begin);
  };
  // What this machine gives right now: the same rows copied by number, without an index.
  pserver::MemoryRegion plain(0);
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
  const double read = rate([&](std::size_t r) { table.read(requests[last = r], to); });
  bool good = true;
  for (std::size_t i = 0; i < kRequestIds; ++i) {
    good = good && to[i * width] == static_cast<float>(numbers[last][i] % 4096) &&
           to[i * width + width - 1] == (width == 1 ? to[i * width] : 0.0F);
  }
  const double copy_of_absent = rate([&](std::size_t r) { table.read(std::span(numbers[r]), to); });
  std::fill(values.begin(), values.end(), 0.0F);
  const double update = rate([&](std::size_t r) { table.apply(1, requests[r], values); });
  good = good && table.rows() == rows;
  const double per_row = static_cast<double>(table.bytes() - table.payload_bytes()) /
                         static_cast<double>(table.rows());
  std::printf(
      "dim %3lu, %9lu rows: insert %5.1f (%5.1f without page faults), read %5.1f, read of absent "
      "ids %5.1f, sgd update %5.1f, "
      "copy without index %5.1f million rows/s; %.2f bytes a row beside the payload%s\n",
      width, rows, insert / 1e6, outside_kernel / 1e6, read / 1e6, copy_of_absent / 1e6,
      update / 1e6, gather / 1e6, per_row, good ? "" : "  WRONG RESULT");
  return good;
}

// Pushes of new rows and reads in turn, as a port serves them: the longest of each, and of both one
// after the other, which is how long a read may wait.
bool pauses(std::uint64_t width, std::uint64_t rows) {
  constexpr std::size_t kIds = 1000;
  const auto set = one_table(width, "sgd");
  pserver::SparseTable table(set, 0);
  std::vector<std::uint64_t> ids(kIds);
  std::vector<std::uint64_t> known(kIds);
  std::vector<float> gradients(kIds * width, -1.0F);
  std::vector<float> values(kIds * width);
  Rng rng(11);
  double longest_push = 0;
  std::uint64_t longest_at = 0;  // rows
  double longest_read = 0;
  double longest_both = 0;
  std::vector<double> reads;
  bool good = true;
  for (std::uint64_t done = 0; done < rows; done += kIds) {
    for (std::size_t i = 0; i < kIds; ++i) ids[i] = id_of(done + i);
    for (std::uint64_t& id : known) id = id_of(rng.below(done + kIds));
    const double start = cpu_seconds();
    if (!table.reserve(kIds)) return false;
    table.apply(1, ids, gradients);
    const double pushed = cpu_seconds();
    table.read(known, values);
    const double end = cpu_seconds();
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
      "read %.2f ms, both %.2f ms; median read %.3f ms; %.2f bytes a row beside the payload%s\n",
      width, rows, longest_push * 1e3, longest_at, longest_read * 1e3, longest_both * 1e3,
      *middle * 1e3,
      static_cast<double>(table.bytes() - table.payload_bytes()) /
          static_cast<double>(table.rows()),
      good ? "" : "  WRONG RESULT");
  return good;
}

}  // namespace
}  // namespace paddle

// sparse_table_bench [rows]
// sparse_table_bench pauses [rows, a multiple of 1000]: 100 million of dim 8 take 5 GB
int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "pauses") {
    const std::uint64_t rows = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 100'000'000;
    return paddle::pauses(8, rows) ? 0 : 1;
  }
  const std::uint64_t rows = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10'000'000;
  const bool good = paddle::run(8, rows) && paddle::run(16, rows);
  return good ? 0 : 1;
}
