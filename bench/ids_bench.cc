// Milliseconds of the host for what a trainer prepares for each batch of CTR-DNN: it collects the
// ids of the batch, makes a hash table of them, finds the row of each id, and, for a card, lists
// where each row occurs and replaces rows by their numbers in the card's table. The ids are either
// small numbers or hashes of 64 bits. Each figure is the best of many calls; fails if a result
// differs from that of a simple algorithm.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/pool.h"
#include "bench/networks.h"
#include "engine/gpu/occurrences.h"
#include "engine/nn/network.h"

namespace paddle {
namespace {

constexpr std::size_t kThreads[] = {1, 2};
constexpr auto kTurn = std::chrono::milliseconds(300);

// Milliseconds of the fastest call: other processes on the machine only add time.
template <class Step>
double milliseconds_of(Step step) {
  const auto start = std::chrono::steady_clock::now();
  std::chrono::duration<double, std::milli> best{1e9};
  for (auto before = start; before - start < kTurn;) {
    step();
    const auto now = std::chrono::steady_clock::now();
    best = std::min(best, std::chrono::duration<double, std::milli>(now - before));
    before = now;
  }
  return best.count();
}

// The engine's work for a batch of CTR-DNN.
class Host {
 public:
  Host(const nn::Network& network, const nn::Batch& batch, ThreadTeam& team)
      : network_(network),
        plan_(network.lower()),
        batch_(batch),
        team_(team),
        ids_(network.parameters().size()) {
    parameters_.dense.resize(ids_.size());
    parameters_.sparse.resize(ids_.size());
    for (const nn::Op& op : plan_.backward) {
      if (const auto* gather = std::get_if<nn::op::GatherBackward>(&op)) input_ = gather->rows;
    }
    while (!network.parameters()[table_].sparse()) ++table_;
  }

  void collect() { network_.collect_ids(batch_, 1, ids_, reads_, &team_); }
  void build() {
    lookup_.build(ids_[table_]);
    parameters_.sparse[table_] = {ids_[table_], {}, &lookup_};
  }
  bool fill() {
    const nn::Run run{.batch = batch_,
                      .begin = 0,
                      .end = batch_.size,
                      .parameters = parameters_,
                      .seed = 1,
                      .team = &team_};
    return static_cast<bool>(plan_.inputs[input_]->fill(run, arrays_));
  }
  void list() {
    starts_.resize(ids_[table_].size() + 1);
    order_.resize(arrays_.indices.size());
    nn::list_occurrences(arrays_.indices, nn::EachIndex{}, starts_, order_.data(), memory_, &team_);
  }
  void renumber() { nn::renumber(arrays_.indices, nn::EachIndex{}, numbers_, &team_); }

  void measure(const std::string& name, std::size_t threads) {
    const double collected = milliseconds_of([&] { collect(); });
    const double built = milliseconds_of([&] { build(); });
    const double filled = milliseconds_of([&] { fill(); });
    const double listed = milliseconds_of([&] { list(); });
    numbers_.resize(ids_[table_].size());
    std::iota(numbers_.begin(), numbers_.end(), 0U);  // so that calls may be repeated
    const double renumbered = milliseconds_of([&] { renumber(); });
    std::printf(
        "ctr batch %5zu, %s, %zu thread%s: collect and sort %.3f ms, hash table %.3f, rows %.3f, "
        "occurrences %.3f, renumber %.3f, all %.3f\n",
        batch_.size, name.c_str(), threads, threads == 1 ? " " : "s", collected, built, filled,
        listed, renumbered, collected + built + filled + listed + renumbered);
  }

  bool is_right() {
    collect();
    build();
    if (!fill()) return false;
    list();
    const std::size_t columns = batch_.slots.size() - 2;  // all but the floats and the label
    std::map<std::uint64_t, std::vector<std::uint32_t>> occurrences;
    for (std::uint32_t i = 0; i < batch_.size * columns; ++i) {
      occurrences[batch_.slots[i % columns].ids[i / columns]].push_back(i);
    }
    if (occurrences.size() != ids_[table_].size()) return false;
    std::uint32_t row = 0;
    for (const auto& [id, expected] : occurrences) {
      if (ids_[table_][row] != id) return false;
      for (const std::uint32_t i : expected) {
        if (arrays_.indices[i] != row) return false;
      }
      if (!std::equal(expected.begin(), expected.end(), order_.data() + starts_[row],
                      order_.data() + starts_[row + 1])) {
        return false;
      }
      ++row;
    }
    return true;
  }

 private:
  const nn::Network& network_;
  const nn::Plan plan_;
  const nn::Batch& batch_;
  std::size_t input_ = 0;
  std::size_t table_ = 0;
  ThreadTeam& team_;
  std::vector<std::vector<std::uint64_t>> ids_;
  std::vector<nn::TableReads> reads_;
  nn::RowLookup lookup_;
  nn::Parameters parameters_;
  nn::InputArrays arrays_;
  nn::OccurrenceMemory memory_;
  std::vector<std::uint32_t> starts_, order_, numbers_;
};

bool measure_all(bool is_hashed, std::span<const std::size_t> batches) {
  const bench::Subject subject = bench::ctr();
  const auto network = bench::build(subject);
  if (!network) return false;
  for (const std::size_t size : batches) {
    nn::Batch batch = bench::make_batch(subject, size);
    for (nn::Slot& slot : batch.slots) {
      if (!is_hashed || &slot == &batch.slots.back()) continue;
      for (std::uint64_t& id : slot.ids) id = hash_combine(7, id);
    }
    for (const std::size_t threads : kThreads) {
      ThreadTeam team(threads);
      Host host(*network, batch, team);
      host.measure(is_hashed ? "hashes " : "numbers", threads);
      if (host.is_right()) continue;
      std::fprintf(stderr, "batch %zu: a list of ids, rows or occurrences is wrong\n", size);
      return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace paddle

// ids_bench [BATCH...]
int main(int argc, char** argv) {
  std::vector<std::size_t> batches;
  for (int i = 1; i < argc; ++i) batches.push_back(std::strtoull(argv[i], nullptr, 10));
  if (batches.empty()) batches = {512, 4096, 16384};
  return paddle::measure_all(false, batches) && paddle::measure_all(true, batches) ? 0 : 1;
}
