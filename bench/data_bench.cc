// Speed of reading files into batches: each format with 1, 2 and 4 parsing threads, and compressed;
// the time to the first batch of a stream that begins late in the pass, with and without an index
// of its chunks; and passes from memory ([data] cache = true) beside passes from files. The batches
// must be the same for all, else the program fails. Then a csv file of floats is read raw and
// prepared in each way. An argument names the one format, or "prepared", to measure.
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "base/rng.h"
#include "engine/data/dataset.h"
#include "engine/data/statistics.h"
#include "tests/support/temporary_folder.h"

namespace paddle {
namespace {

constexpr std::size_t kFileBytes = 48U << 20U;
constexpr std::uint32_t kBatchSize = 512;
constexpr std::uint64_t kShuffleRecords = 4096;
constexpr int kCachePasses = 5;
constexpr std::uint32_t kFloats = 28;  // columns of the file of floats

struct Workload {
  std::string name;
  config::DataConfig data;
  std::string (*line)(Rng& rng);
};

std::string ngram_line(Rng& rng) {
  std::string line;
  for (int i = 0; i < 20; ++i) line += fmt::format("w{} ", rng.below(10000));
  return line;
}

// The shape of a CTR example: 26 slots of one id and 13 floats.
std::string multislot_line(Rng& rng) {
  std::string line = fmt::format("1 {} 13", rng.below(2));
  for (int i = 0; i < 13; ++i) line += fmt::format(" {:.6f}", rng.uniform());
  for (int i = 0; i < 26; ++i) line += fmt::format(" 1 {}", rng.below(1000001));
  return line;
}

std::string libsvm_line(Rng& rng) {
  std::string line = fmt::format("{}", rng.below(2));
  for (int i = 0; i < 39; ++i) line += fmt::format(" {}:{:.4f}", rng.below(1000000), rng.uniform());
  return line;
}

std::string criteo_line(Rng& rng) {
  std::string line = fmt::format("{}", rng.below(2));
  for (int i = 0; i < 13; ++i) line += fmt::format("\t{}", rng.below(1000));
  for (int i = 0; i < 26; ++i) line += fmt::format("\t{:08x}", rng.next() >> 32U);
  return line;
}

std::string csv_line(Rng& rng) {
  std::string line = criteo_line(rng);
  for (char& c : line) c = c == '\t' ? ',' : c;
  return line;
}

// The same shape as that of multislot_line().
std::string jsonl_line(Rng& rng) {
  std::string line = fmt::format(R"({{"label":{},"dense":[)", rng.below(2));
  for (int i = 0; i < 13; ++i) line += fmt::format("{}{:.6f}", i == 0 ? "" : ",", rng.uniform());
  line += ']';
  for (int i = 0; i < 26; ++i) line += fmt::format(R"(,"C{}":{})", i, rng.below(1000001));
  return line + '}';
}

std::vector<Workload> workloads() {
  using config::SlotType;
  std::vector<Workload> all(6);
  all[0] = {"ngram", {}, ngram_line};
  all[1] = {"multislot", {}, multislot_line};
  all[1].data.slots = {{.name = "label"}, {.name = "dense", .type = SlotType::kFloat, .width = 13}};
  for (int i = 0; i < 26; ++i) all[1].data.slots.push_back({.name = fmt::format("C{}", i)});
  all[2] = {"libsvm", {}, libsvm_line};
  all[3] = {"criteo", {}, criteo_line};
  all[4] = {"csv", {}, csv_line};
  all[4].data.slots = {{.name = "label", .columns = {0}},
                       {.name = "dense", .type = SlotType::kFloat, .width = 13}};
  for (std::uint32_t i = 0; i < 40; ++i) {
    all[4].data.columns.push_back(fmt::format("column{}", i));
    if (i >= 1 && i <= 13) all[4].data.slots[1].columns.push_back(i);
    if (i <= 13) continue;
    all[4].data.slots.push_back(
        {.name = fmt::format("C{}", i), .type = SlotType::kHash, .columns = {i}});
  }
  all[5] = {"jsonl", all[1].data, jsonl_line};
  for (Workload& one : all) one.data.format = one.name;
  return all;
}

struct Reading {
  std::uint64_t records = 0;
  std::uint64_t sum = 0;
  double seconds = 0;
  double cpu_seconds = 0;  // of all threads
  std::string error;
};

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Prints medians of several readings of the same records.
void print_medians(const std::string& name, std::vector<Reading> readings) {
  const std::size_t middle = readings.size() / 2;
  std::ranges::sort(readings, {}, &Reading::seconds);
  const auto records = static_cast<double>(readings[middle].records);
  const double rate = records / readings[middle].seconds;
  std::ranges::sort(readings, {}, &Reading::cpu_seconds);
  std::printf("%-46s %9.0f records/s %6.0f ns of CPU/record\n", name.c_str(), rate,
              1e9 * readings[middle].cpu_seconds / records);
}

Reading read(const data::DatasetOptions& options, const data::Dictionary& dictionary) {
  Reading reading;
  const double cpu_start = cpu_seconds();
  const auto start = std::chrono::steady_clock::now();
  const auto stream = data::open_pass(options, dictionary, 0);
  for (;;) {
    const auto batch = stream->next();
    if (!batch) reading.error = batch.error().message;
    if (!batch || !*batch) break;
    reading.records += (*batch)->size;
    // The first and last id of each slot suffice to detect another order.
    for (const nn::Slot& slot : (*batch)->slots) {
      if (slot.ids.empty()) continue;
      reading.sum = hash_combine(hash_combine(reading.sum, slot.ids.front()), slot.ids.back());
    }
  }
  reading.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  reading.cpu_seconds = cpu_seconds() - cpu_start;
  return reading;
}

// Measures the time to the first batch of a shuffled stream that begins after three quarters of the
// pass.
bool measure_resume(const Workload& workload, data::DatasetOptions options, std::uint64_t batches,
                    const data::Dictionary& dictionary) {
  options.data.threads = 2;
  options.shuffle_records = kShuffleRecords;
  std::vector<std::byte> index(1U << 20U);
  const std::uint64_t skip = batches * 3 / 4;
  {
    const auto stream = data::open_pass(options, dictionary, 0, 0, index);
    for (std::uint64_t i = 0; i < skip; ++i) {
      if (const auto batch = stream->next(); !batch || !*batch) return false;
    }
  }
  std::vector<std::uint64_t> expected;
  std::string figures;
  for (const bool indexed : {false, true}) {
    const auto start = std::chrono::steady_clock::now();
    const auto stream = data::open_pass(options, dictionary, 0, skip,
                                        indexed ? std::span(index) : std::span<std::byte>());
    const auto batch = stream->next();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (!batch || !*batch) return false;
    const auto& ids = (*batch)->slots.back().ids;
    if (indexed && ids != expected) {
      std::fprintf(stderr, "%s: another batch with the index\n", workload.name.c_str());
      return false;
    }
    expected = ids;
    figures += fmt::format("  {}: {:6.1f} ms", indexed ? "with the index" : "parsed and dropped",
                           1000 * elapsed.count());
  }
  std::printf("%-10sbatch %llu of %llu%s\n", workload.name.c_str(),
              static_cast<unsigned long long>(skip), static_cast<unsigned long long>(batches),
              figures.c_str());
  return true;
}

// Measures passes from the file and from memory in turn, and prints medians.
bool measure_cache(const Workload& workload, data::DatasetOptions options,
                   const data::Dictionary& dictionary) {
  options.data.threads = 2;
  data::DatasetOptions cached = options;
  cached.cache = std::make_shared<data::RecordCache>(std::uint64_t{1} << 32U);
  const Reading first = read(cached, dictionary);  // fills the cache
  std::vector<double> files, memory;
  for (int i = 0; i < kCachePasses; ++i) {
    for (const bool is_cached : {false, true}) {
      const Reading reading = read(is_cached ? cached : options, dictionary);
      if (!reading.error.empty() || reading.sum != first.sum) {
        std::fprintf(stderr, "%s: other batches from memory\n", workload.name.c_str());
        return false;
      }
      (is_cached ? memory : files)
          .push_back(static_cast<double>(reading.records) / reading.seconds);
    }
  }
  std::ranges::sort(files);
  std::ranges::sort(memory);
  std::printf("%-10sa pass from the file: %9.0f records/s  from memory: %9.0f records/s\n",
              workload.name.c_str(), files[kCachePasses / 2], memory[kCachePasses / 2]);
  return true;
}

void write_gzip(const std::string& text, const std::string& path) {
  gzFile file = ::gzopen(path.c_str(), "wb1");
  ::gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  ::gzclose(file);
}

void write_zstd(const std::string& text, const std::string& path) {
  std::string packed(::ZSTD_compressBound(text.size()), '\0');
  packed.resize(::ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 1));
  std::ofstream(path, std::ios::binary) << packed;
}

bool measure(const Workload& workload, const test::TemporaryFolder& folder,
             const data::Dictionary& dictionary) {
  Rng rng(1);
  std::string text;
  while (text.size() < kFileBytes) text += workload.line(rng) + "\n";
  data::DatasetOptions options;
  options.data = workload.data;
  options.batch_size = kBatchSize;
  const std::string plain = folder.write("data", text);
  write_gzip(text, folder / "data.gz");
  write_zstd(text, folder / "data.zst");

  Reading first;
  for (const char* const ending : {"", ".gz", ".zst"}) {
    std::string figures;
    for (const std::uint32_t threads : {1U, 2U, 4U}) {
      if (*ending != '\0' && threads == 4) continue;
      options.data.threads = threads;
      options.share.files = {plain + ending};
      const Reading reading = read(options, dictionary);
      if (!reading.error.empty()) {
        std::fprintf(stderr, "%s\n", reading.error.c_str());
        return false;
      }
      if (first.records == 0) first = reading;
      if (reading.records != first.records || reading.sum != first.sum) {
        std::fprintf(stderr, "%s: other batches with %u threads\n", workload.name.c_str(), threads);
        return false;
      }
      const double megabytes = static_cast<double>(text.size()) * 1e-6 / reading.seconds;
      figures += fmt::format("  {} thread{}: {:5.0f} MB/s {:9.0f} records/s", threads,
                             threads == 1 ? " " : "s", megabytes,
                             static_cast<double>(reading.records) / reading.seconds);
    }
    std::printf("%-10s%-5s%s\n", workload.name.c_str(), ending, figures.c_str());
  }
  options.share.files = {plain};
  return measure_resume(workload, options, first.records / kBatchSize, dictionary) &&
         measure_cache(workload, options, dictionary);
}

using Ways = std::vector<std::pair<std::string, config::DataSlotConfig>>;

Reading observe(const data::DatasetOptions& options, const data::Dictionary& dictionary) {
  Reading reading;
  const double cpu_start = cpu_seconds();
  const auto start = std::chrono::steady_clock::now();
  const auto observed = data::observe_pass(options, dictionary);
  const auto result = observed ? observed->result() : observed.error();
  reading.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  reading.cpu_seconds = cpu_seconds() - cpu_start;
  if (!result) reading.error = result.error().message;
  if (result) reading.records = result->records;
  return reading;
}

// Reads 28 floats and a label from each line of csv, raw and prepared in turn, and prints medians.
bool measure_preparation(const test::TemporaryFolder& folder, const data::Dictionary& dictionary) {
  Rng rng(1);
  std::string text;
  while (text.size() < kFileBytes) {
    for (std::uint32_t i = 0; i < kFloats; ++i) text += fmt::format("{:.5f},", rng.normal() * 50);
    text += fmt::format("{}\n", rng.below(2));
  }
  data::DatasetOptions options;
  options.data.format = "csv";
  options.data.threads = 1;
  options.batch_size = kBatchSize;
  options.share.files = {folder.write("floats", text)};
  options.data.slots = {{.name = "x", .type = config::SlotType::kFloat, .width = kFloats},
                        {.name = "y", .columns = {kFloats}}};
  for (std::uint32_t i = 0; i <= kFloats; ++i)
    options.data.columns.push_back(fmt::format("column{}", i));
  config::DataSlotConfig& x = options.data.slots[0];
  for (std::uint32_t i = 0; i < kFloats; ++i) x.columns.push_back(i);
  Ways ways;
  ways.emplace_back("raw", x);
  x.fits.assign(kFloats, {.fill = 0.5, .offset = 1.5, .scale = 0.02});
  x.missing = config::Missing::kMean;
  x.normalize = config::Normalize::kStandard;
  ways.emplace_back("standard", x);
  x.missing_indicator = true;
  ways.emplace_back("with indicators", x);
  x.normalize = config::Normalize::kLog;
  ways.emplace_back("log", x);
  x = ways.front().second;
  x.bucket_count = 10;
  x.fits.assign(kFloats, {.edges = {-60, -40, -25, -12, 0, 12, 25, 40, 60}});
  ways.emplace_back("buckets", x);
  for (const std::uint32_t threads : {1U, 2U}) {
    options.data.threads = threads;
    std::vector<std::vector<Reading>> read_all(ways.size()), observed(ways.size());
    for (int i = 0; i < kCachePasses; ++i) {
      for (std::size_t way = 0; way < ways.size(); ++way) {
        x = ways[way].second;
        read_all[way].push_back(read(options, dictionary));
        if (x.needs_statistics()) observed[way].push_back(observe(options, dictionary));
        const bool failed = !read_all[way].back().error.empty() ||
                            (x.needs_statistics() && !observed[way].back().error.empty());
        if (failed) return false;
      }
    }
    for (std::size_t way = 0; way < ways.size(); ++way) {
      const std::string of_way = fmt::format(" {}, parsing threads: {}", ways[way].first, threads);
      print_medians("prepared" + of_way, read_all[way]);
      if (!observed[way].empty()) print_medians("statistics" + of_way, observed[way]);
    }
  }
  return true;
}

}  // namespace
}  // namespace paddle

int main(int argc, char** argv) {
  const paddle::test::TemporaryFolder folder;
  std::string words = "<s>\n<e>\n";
  for (int i = 0; i < 10000; ++i) words += fmt::format("w{}\n", i);
  const auto dictionary = paddle::data::Dictionary::read(folder.write("words", words + "<unk>\n"));
  bool good = bool(dictionary);
  for (const auto& workload : paddle::workloads()) {
    if (argc > 1 && workload.name != argv[1]) continue;
    good = good && paddle::measure(workload, folder, *dictionary);
  }
  if (argc == 1 || std::string_view(argv[1]) == "prepared")
    good = good && paddle::measure_preparation(folder, *dictionary);
  return good ? 0 : 1;
}
