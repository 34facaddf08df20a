#include "tests/sim/invariants.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/rng.h"

namespace paddle::sim {
namespace {

bool is(const net::Outgoing& outgoing, FrameType type) {
  return outgoing.frame.header.type == static_cast<std::uint8_t>(type);
}

}  // namespace

Invariants::Invariants(const Model& model, const Disk& disk, bool all_return)
    : model_(model),
      disk_(disk),
      all_return_(all_return),
      incarnations_(model.shards()),
      savepoints_(model) {}

void Invariants::fail(std::string what) {
  if (broken_.empty()) broken_ = std::move(what);
}

std::string Invariants::name(std::uint32_t index) const {
  const std::uint32_t port = index % model_.dense_shards();
  return fmt::format("{} port {}", model_.is_sparse(index) ? "sparse" : "dense", port);
}

void Invariants::on_restart(std::uint32_t shard) {
  incarnations_[shard] = {.ledger = {},
                          .last_applied = std::vector<std::uint64_t>(model_.set().num_trainers()),
                          .incarnations = std::vector<std::uint32_t>(model_.set().num_trainers())};
}

void Invariants::on_joined(std::uint32_t shard, std::uint32_t trainer, std::uint32_t incarnation) {
  std::uint32_t& highest = incarnations_[shard].incarnations[trainer];
  highest = std::max(highest, incarnation);
}

bool Invariants::is_fenced(std::uint32_t shard, std::uint32_t trainer,
                           std::uint32_t incarnation) const {
  return incarnation < incarnations_[shard].incarnations[trainer];
}

std::vector<float> Invariants::ledger(std::uint32_t index, const pserver::Shard& shard) const {
  std::vector<float> values(model_.cells());
  if (model_.is_sparse(index)) {
    const auto* const table = shard.sparse(model_.rows_parameter());
    if (table != nullptr) table->read(model_.row_ids(index), values);
  } else if (shard.dense() != nullptr) {
    const auto from = model_.ledger(index, shard.dense()->values());
    values.assign(from.begin(), from.end());
  }
  return values;
}

std::uint64_t Invariants::fingerprint(const Model& model, std::uint32_t index,
                                      const pserver::Shard& shard) {
  std::uint64_t hash = hash_combine(shard.step(), shard.ready() ? 1 : 0);
  const pserver::ShardStatistics statistics = shard.statistics();
  hash = hash_combine(hash, hash_combine(statistics.batches, statistics.rows));
  hash = hash_combine(hash, stable_hash(shard.failure()));
  if (shard.dense() != nullptr) {
    hash = hash_combine(hash, stable_hash(as_text(bytes_of(shard.dense()->values()))));
  }
  if (model.is_sparse(index) && shard.sparse(model.rows_parameter()) != nullptr) {
    std::vector<float> values(model.cells());
    shard.sparse(model.rows_parameter())->read(model.row_ids(index), values);
    hash = hash_combine(hash, stable_hash(as_text(bytes_of(std::span<const float>(values)))));
  }
  return hash;
}

// I4
void Invariants::after_fenced(std::uint32_t index, const pserver::Shard& shard,
                              std::uint64_t before, std::span<const net::Outgoing> out) {
  if (fingerprint(model_, index, shard) != before) {
    fail(fmt::format("I4: a frame of an incarnation that is over changed {}", name(index)));
  }
  for (const net::Outgoing& outgoing : out) {
    if (is(outgoing, FrameType::kRefused)) continue;
    fail(fmt::format("I4: {} answered an incarnation that is over with type {}", name(index),
                     outgoing.frame.header.type));
  }
  if (out.empty())
    fail(fmt::format("I4: {} took a frame of an incarnation that is over", name(index)));
}

void Invariants::after_call(std::uint32_t index, const pserver::Shard& shard,
                            std::span<const net::Outgoing> out,
                            std::span<const std::uint32_t> trainer_of) {
  Incarnation& incarnation = incarnations_[index];
  // I9: an event has a bounded number of answers.
  if (out.size() > 2 * incarnation.last_applied.size() + 1) {
    fail(fmt::format("I9: {} sent {} frames at once", name(index), out.size()));
  }
  for (const net::Outgoing& outgoing : out) {
    const std::uint64_t generation = outgoing.frame.header.server_generation;
    if (incarnation.generation != 0 && generation > incarnation.generation)
      on_gone_back(index, shard, generation);
    incarnation.generation = std::max(incarnation.generation, generation);
  }
  if (shard.ready() && !incarnation.is_ready) check_ready(index, shard);
  if (!incarnation.is_ready) return;
  if (shard.step() != incarnation.step) check_step(index, shard);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (is(out[i], FrameType::kPassFinished)) check_pass_end(index, out[i]);
    if (is(out[i], FrameType::kPosition)) check_position(index, out[i]);
    if (is(out[i], FrameType::kRefused)) continue;
    std::uint64_t& last = incarnation.last_applied[trainer_of[i]];
    const std::uint64_t now = out[i].frame.header.sequence;
    if (now < last) {
      fail(fmt::format("I1: {} said that {} was applied of trainer {}, then {}", name(index), last,
                       trainer_of[i], now));
    }
    last = now;
  }
}

// I5: a port begins with the whole of one snapshot or savepoint.
void Invariants::check_ready(std::uint32_t index, const pserver::Shard& shard) {
  Incarnation& incarnation = incarnations_[index];
  incarnation.is_ready = true;
  incarnation.step = shard.step();
  incarnation.ledger = ledger(index, shard);
  if (incarnation.went_back) return check_rounds(index);
  savepoints_.on_anew(index);
  const std::uint64_t passes = disk_.newest ? disk_.newest->position.passes_finished() : 0;
  const std::uint64_t step = disk_.newest ? disk_.newest->position.step() : 0;
  if (incarnation.step != step) {
    fail(fmt::format("I5: {} begins at step {}, the snapshot is of step {}", name(index),
                     incarnation.step, step));
  }
  check_prefix(incarnation.ledger, passes, fmt::format("I5: {} at its begin", name(index)));
}

// I2 and I3
void Invariants::check_step(std::uint32_t index, const pserver::Shard& shard) {
  Incarnation& incarnation = incarnations_[index];
  ++progress_;
  if (shard.step() < incarnation.step) {
    fail(
        fmt::format("I1: {} went from step {} to {}", name(index), incarnation.step, shard.step()));
    return;
  }
  std::vector<float> now = ledger(index, shard);
  std::vector<std::uint64_t> filled;
  for (std::uint64_t cell = 0; cell < now.size(); ++cell) {
    if (now[cell] == incarnation.ledger[cell]) continue;
    filled.push_back(cell);
    if (now[cell] == 1 && incarnation.ledger[cell] == 0) continue;
    fail(fmt::format("I2: {} of {} went from {} to {}", name_of_cell(cell), name(index),
                     incarnation.ledger[cell], now[cell]));
  }
  if (model_.in_rounds(index)) {
    std::vector<std::uint64_t> expected;
    for (std::uint64_t step = incarnation.step + 1; step <= shard.step(); ++step) {
      if (step > model_.steps()) break;
      const auto& cells = model_.cells_of_step(step);
      expected.insert(expected.end(), cells.begin(), cells.end());
    }
    std::ranges::sort(expected);
    if (filled != expected) {
      fail(fmt::format("I3: step {} of {} has {} batches of other trainers or rounds", shard.step(),
                       name(index), filled.size()));
    }
  }
  incarnation.step = shard.step();
  incarnation.ledger = std::move(now);
}

std::string Invariants::name_of_cell(std::uint64_t cell) const {
  return fmt::format("batch {} (of pass {})", cell, model_.pass_of(cell));
}

void Invariants::check_prefix(std::span<const float> ledger, std::uint64_t passes,
                              const std::string& what) {
  for (std::uint64_t cell = 0; cell < ledger.size(); ++cell) {
    const float expected = model_.pass_of(cell) < passes ? 1 : 0;
    if (ledger[cell] == expected) continue;
    return fail(fmt::format("{} has {} {} times, after {} passes", what, name_of_cell(cell),
                            ledger[cell], passes));
  }
}

// I5: a snapshot holds whole passes on every port.
void Invariants::on_saved(const Snapshot& snapshot) {
  const std::uint64_t passes = snapshot.position.passes_finished();
  for (std::uint32_t id = 0; !model_.has_windows() && id < model_.set().num_trainers(); ++id) {
    const std::uint64_t cursor = snapshot.position.cursors(static_cast<int>(id));
    if (cursor == passes * model_.batches(id)) continue;
    fail(fmt::format("I5: a snapshot after {} passes has cursor {} of trainer {}", passes, cursor,
                     id));
  }
  for (std::uint32_t shard = 0; shard < model_.dense_shards(); ++shard) {
    check_prefix(model_.ledger(shard, snapshot.dense[shard]), passes,
                 fmt::format("I5: a snapshot of {}", name(shard)));
    std::uint64_t rows = 0;
    for (const Snapshot::Rows& part : snapshot.rows[shard]) rows += part.count;
    if (rows >= model_.cells_before(passes)) continue;
    fail(
        fmt::format("I5: a snapshot of {} has {} rows after {} passes", name(shard), rows, passes));
  }
}

void Invariants::at_end(std::uint32_t index, const pserver::Shard& shard) {
  check_prefix(ledger(index, shard), UINT64_MAX, fmt::format("I2: {} at the end", name(index)));
}

}  // namespace paddle::sim
