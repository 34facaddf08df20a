// Invariants of savepoints, and of the positions that ports send.
#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "base/rng.h"
#include "tests/sim/invariants.h"

namespace paddle::sim {

// The floats of the port: the ledger and those that every push changes.
SavepointRecords::State Invariants::state(std::uint32_t index, const pserver::Shard& shard) const {
  std::uint64_t hash = 0;
  const auto add = [&](std::span<const float> values) {
    hash = hash_combine(hash, stable_hash(as_text(bytes_of(values))));
  };
  if (!model_.is_sparse(index)) {
    add(shard.dense()->values());
  } else {
    add(ledger(index, shard));
    std::vector<float> shared(1);
    shard.sparse(model_.rows_parameter())->read(model_.shared_row(index), shared);
    add(shared);
  }
  return {shard.step(), hash};
}

void Invariants::on_savepoint(std::uint32_t index, std::uint64_t savepoint,
                              const pserver::Shard& shard) {
  savepoints_.on_begin(index, savepoint, state(index, shard));
}

void Invariants::on_savepoints(std::uint32_t index, std::vector<std::uint64_t> whole) {
  savepoints_.set_whole(index, std::move(whole));
}

// I11: a savepoint that is whole is durable.
void Invariants::on_savepoints_opened(std::uint32_t index,
                                      const std::vector<std::uint64_t>& whole) {
  if (const std::string lost = savepoints_.on_opened(index, whole); !lost.empty()) {
    fail(fmt::format("I11: {}: {}", name(index), lost));
  }
}

// I11: and can be read.
void Invariants::on_savepoint_read(std::uint32_t index, std::uint64_t savepoint,
                                   const Status& outcome) {
  savepoints_.on_read(index, savepoint);
  if (outcome) return;
  fail(fmt::format("I11: {} cannot read savepoint {}: {}", name(index), savepoint,
                   outcome.error().message));
}

// I12: a job with savepoints does not begin anew.
void Invariants::on_no_rollback() {
  if (savepoints_.has_rollback())
    fail("I12: trainer 0 finds no way back, and all ports have savepoints");
}

void Invariants::on_listed(std::uint32_t index, const net::Outgoing& outgoing) {
  wire::Position position;
  PADDLE_CHECK(position.ParseFromString(outgoing.frame.head));
  savepoints_.set_listed(index, {position.savepoints().begin(), position.savepoints().end()});
}

// I12: a port goes back to all that it was at the newest savepoint that it may go back to.
void Invariants::on_gone_back(std::uint32_t index, const pserver::Shard& shard,
                              std::uint64_t generation) {
  Incarnation& incarnation = incarnations_[index];
  incarnation = {.went_back = true,
                 .generation = generation,
                 .ledger = {},
                 .last_applied = std::vector<std::uint64_t>(model_.set().num_trainers()),
                 .incarnations = std::move(incarnation.incarnations)};
  if (const std::string wrong = savepoints_.check_gone_back(index, state(index, shard));
      !wrong.empty()) {
    fail(fmt::format("I12: {} {}", name(index), wrong));
  }
  incarnation.step = shard.step();
}

// I12: ports in rounds go back together. A new incarnation that has not gone back yet is at no
// step.
void Invariants::check_rounds(std::uint32_t index) {
  if (!model_.in_rounds(index)) return;
  for (std::uint32_t other = 0; other < incarnations_.size(); ++other) {
    const Incarnation& incarnation = incarnations_[other];
    if (!model_.in_rounds(other) || !(incarnation.is_ready || incarnation.went_back)) continue;
    if (incarnation.step == incarnations_[index].step) continue;
    fail(fmt::format("I12: {} starts at step {}, {} is at step {}", name(index),
                     incarnations_[index].step, name(other), incarnation.step));
  }
}

// I2: each cursor counts the batches that were applied.
void Invariants::check_position(std::uint32_t index, const net::Outgoing& outgoing) {
  wire::Position position;
  PADDLE_CHECK(position.ParseFromString(outgoing.frame.head));
  for (std::uint32_t id = 0; !model_.has_windows() && id < model_.set().num_trainers(); ++id) {
    std::uint64_t applied = 0;
    for (std::uint64_t batch = 0; batch < model_.batches_of_job(id); ++batch) {
      if (incarnations_[index].ledger[model_.cell(id, 0, batch)] != 0) ++applied;
    }
    const std::uint64_t cursor = position.cursors(static_cast<int>(id));
    if (applied == cursor) continue;
    fail(fmt::format("I2: {} has {} batches of trainer {}, its cursor is {}", name(index), applied,
                     id, cursor));
  }
}

// I2: the totals of a pass are those of all its batches.
void Invariants::check_pass_end(std::uint32_t index, const net::Outgoing& outgoing) {
  ++progress_;
  wire::PassFinished totals;
  PADDLE_CHECK(totals.ParseFromString(outgoing.frame.head));
  if (totals.paused() || !all_return_) return;
  const std::uint64_t all = model_.cells_before(totals.passes_finished());
  const std::uint64_t last = model_.cells_before(1);
  if (totals.job_samples() == all && totals.samples() == last) return;
  fail(fmt::format(
      "I2: {} tells {} samples after {} passes, {} in the last one; {} and {} expected",
      name(index), totals.job_samples(), totals.passes_finished(), totals.samples(), all, last));
}

}  // namespace paddle::sim
