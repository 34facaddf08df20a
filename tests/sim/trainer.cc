#include "tests/sim/trainer.h"

#include <algorithm>

#include <fmt/format.h>

namespace paddle::sim {
namespace {

constexpr Duration kResendAfter = std::chrono::milliseconds(300);
constexpr double kSendWindow = 0.3;  // probability after a batch, while the queue has room

}  // namespace

Trainer::Trainer(std::uint32_t id, const ClusterOptions& options, const Model& model, Disk& disk)
    : id_(id),
      options_(options),
      model_(model),
      disk_(disk),
      windows_({}),
      rng_(hash_combine(options.seed, 0x747261696e6572 + id)) {}

void Trainer::start() {
  ++incarnation_;
  phase_ = Phase::kConnect;
  lanes_.clear();
  for (std::uint32_t shard = 0; shard < model_.shards(); ++shard) {
    lanes_.emplace_back(client::ClientLane::Options{.trainer_id = id_,
                                                    .incarnation = incarnation_,
                                                    .job_tag = 1,
                                                    .lane = static_cast<std::uint16_t>(shard),
                                                    .resend_after = kResendAfter});
  }
  asks_.assign(model_.shards(), {});
  positions_.assign(model_.shards(), {});
  values_.assign(model_.dense_shards(), {});
  has_saved_ = has_returned_ = false;
  windows_ = strategy::Communicator({.max_merge = options_.max_merge,
                                     .send_queue_size = options_.send_queue_size,
                                     .merge = wire::MERGE_SUM});
  pushes_window_ = false;
  saving_.reset();
  totals_.reset();
}

std::vector<LaneFrame> Trainer::end() {
  std::vector<LaneFrame> last;
  for (std::uint32_t shard = 0; shard < lanes_.size(); ++shard) {
    const Frame* const frame = lanes_[shard].on_tick(TimePoint::max());
    if (frame != nullptr) last.push_back({shard, *frame});
  }
  phase_ = Phase::kDown;
  return last;
}

void Trainer::on_connected(TimePoint now, std::vector<LaneFrame>& out) {
  phase_ = Phase::kJoin;
  begin_phase();
  advance(now, out);
}

void Trainer::on_tick(TimePoint now, std::vector<LaneFrame>& out) {
  for (std::uint32_t shard = 0; shard < lanes_.size(); ++shard) {
    const Frame* const frame = lanes_[shard].on_tick(now);
    if (frame != nullptr) out.push_back({shard, *frame});
  }
}

Status Trainer::on_frame(std::uint32_t shard, Frame&& frame, TimePoint now,
                         std::vector<LaneFrame>& out) {
  PADDLE_TRY(const std::optional<Frame> answer, lanes_[shard].on_frame(std::move(frame), now));
  if (!answer) return {};
  PADDLE_TRY_STATUS(take(shard, *answer));
  advance(now, out);
  while (!has_work() && phase_ != Phase::kDone) {
    PADDLE_TRY(phase_, next_phase());
    begin_phase();
    advance(now, out);
  }
  return {};
}

bool Trainer::has_work() const {
  return std::ranges::any_of(lanes_, [](const auto& lane) { return lane.is_open(); }) ||
         std::ranges::any_of(asks_, [](const auto& asks) { return !asks.empty(); });
}

void Trainer::advance(TimePoint now, std::vector<LaneFrame>& out) {
  for (std::uint32_t shard = 0; shard < asks_.size(); ++shard) {
    if (asks_[shard].empty() || lanes_[shard].is_open()) continue;
    out.push_back({shard, asks_[shard].front()(lanes_[shard], now)});
    asks_[shard].pop_front();
  }
}

Result<Trainer::Phase> Trainer::next_phase() {
  switch (phase_) {
    case Phase::kJoin: {
      const bool loads = id_ == 0 && disk_.newest && !positions_[0].ready();
      return loads ? Phase::kLoadBegin : Phase::kReady;
    }
    case Phase::kLoadBegin:
      ++loads_;
      return Phase::kLoad;
    case Phase::kLoad:
      return Phase::kReady;
    case Phase::kReady:
      return first_phase();
    case Phase::kPull:
      begin_push();
      return model_.has_windows() ? phase_of_position() : Phase::kPushEarly;
    case Phase::kPushEarly:
      return Phase::kPush;
    case Phase::kPush:
      end_push();
      return phase_of_position();
    case Phase::kFinish:
      ++pass_;
      batch_ = meetings_ = 0;
      has_saved_ = false;
      return phase_of_position();
    case Phase::kBusy:
      return Phase::kSave;
    case Phase::kSave:
      disk_.newest = std::move(saving_);
      ++disk_.saves;
      has_saved_ = true;
      return phase_of_position();
    case Phase::kMeet:
      ++meetings_;
      return phase_of_position();
    default:
      return Phase::kDone;
  }
}

// Where the job stands: every port must say the same.
Result<Trainer::Phase> Trainer::first_phase() {
  const auto mine = static_cast<int>(id_);
  const wire::Position& first = positions_[0];
  for (const wire::Position& each : positions_) {
    if (each.passes_finished() == first.passes_finished() &&
        each.pass_batches(mine) == first.pass_batches(mine) &&
        each.last_applied() == first.last_applied()) {
      continue;
    }
    return Error{Errc::kUnreachable, "ports are not at the same place"};
  }
  pass_ = start_pass_ = first.passes_finished();
  batch_ = first.pass_batches(mine);
  meetings_ = 0;
  return phase_of_position();
}

// A pass that was trained here is saved by trainer 0, then all meet; and once more before they
// leave.
Trainer::Phase Trainer::phase_of_position() {
  const std::uint64_t due = pass_ > start_pass_ ? 1 : 0;
  if (meetings_ < due) return id_ == 0 && !has_saved_ ? Phase::kBusy : Phase::kMeet;
  if (pass_ < options_.passes) return phase_of_pass();
  return meetings_ <= due ? Phase::kMeet : Phase::kLeave;
}

Trainer::Phase Trainer::phase_of_pass() {
  const bool is_over = batch_ == options_.batches[id_];
  if (model_.has_windows()) {
    if (is_over) windows_.flush();
    if (is_over || windows_.is_full() || rng_.uniform() < kSendWindow) {
      if (const strategy::Window* const window = windows_.send()) {
        gradients_ = {window->samples, window->batches, window->dense, window->rows[0]};
        return Phase::kPushEarly;
      }
    }
  }
  return is_over ? Phase::kFinish : Phase::kPull;
}

// Gradients of the batch whose values have come; those of windows are pushed later.
void Trainer::begin_push() {
  gradients_ = model_.gradients(id_, pass_, batch_, values_);
  if (!model_.has_windows()) return;
  windows_.on_gradient({1, 1, 0}, gradients_.dense, {&gradients_.rows, 1});
  ++batch_;
}

void Trainer::end_push() {
  if (model_.has_windows()) return windows_.on_answer();
  ++batch_;
}

void Trainer::begin_phase() {
  for (std::uint32_t shard = 0; shard < model_.shards(); ++shard) {
    switch (phase_) {
      case Phase::kJoin:
        ask_join(shard);
        break;
      case Phase::kLoadBegin:
        ask_load_begin(shard);
        break;
      case Phase::kLoad:
        ask_load(shard);
        break;
      case Phase::kReady:
        ask(shard, FrameType::kReady, wire::Ready());
        break;
      case Phase::kPull:
        ask_pull(shard);
        break;
      case Phase::kPushEarly:
      case Phase::kPush:
        ask_push(shard, gradients_, phase_ == Phase::kPushEarly);
        break;
      case Phase::kFinish:
      case Phase::kMeet:
        ask_finish(shard, phase_ == Phase::kMeet);
        break;
      case Phase::kBusy:
        ask(shard, FrameType::kBusy, wire::Busy());
        break;
      case Phase::kSave:
        ask_save(shard);
        break;
      case Phase::kLeave:
        ask(shard, FrameType::kLeave, wire::Leave());
        break;
      default:
        break;
    }
  }
}

}  // namespace paddle::sim
