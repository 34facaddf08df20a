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
      recovery_(model.set(), id, options.passes),
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
  recovery_ = client::Recovery(model_.set(), id_, options_.passes);
  values_.assign(model_.dense_shards(), {});
  has_saved_ = repeats_push_ = false;
  for (client::LinkPositions& kind : link_positions_) kind = {};
  in_rounds_.clear();
  finds_no_rollback_ = false;
  gives_up_at_.reset();
  last_words_.clear();
  windows_ = strategy::Communicator({.max_merge = options_.max_merge,
                                     .send_queue_size = options_.send_queue_size,
                                     .merge = wire::MERGE_SUM});
  pushes_window_ = false;
  saving_.reset();
  totals_.reset();
}

std::vector<LaneFrame> Trainer::end() {
  std::vector<LaneFrame> last = std::exchange(last_words_, {});
  for (std::uint32_t shard = 0; last.empty() && shard < lanes_.size(); ++shard) {
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

Status Trainer::on_tick(TimePoint now, std::vector<LaneFrame>& out) {
  if (phase_ == Phase::kReady && gives_up_at_ && now >= *gives_up_at_) {
    return abandon("a pserver was restarted");
  }
  for (std::uint32_t shard = 0; shard < lanes_.size(); ++shard) {
    const Frame* const frame = lanes_[shard].on_tick(now);
    if (frame != nullptr) out.push_back({shard, *frame});
  }
  return {};
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
    if (const auto patience = recovery_.patience_max()) gives_up_at_ = now + *patience;
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
    case Phase::kJoin:
      return phase_of_join();
    case Phase::kGoBack:
      PADDLE_TRY_STATUS(recovery_.end_state({}));
      return Phase::kReady;
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
      return phase_after_push();
    case Phase::kFinish:
      ++pass_;
      batch_ = pushed_ = meetings_ = 0;
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

Result<Trainer::Phase> Trainer::phase_after_push() {
  if (repeats_push_) return repeat_replay_log();
  for (client::LinkPositions& kind : link_positions_) kind.on_push(end_of_push());
  pushed_ += gradients_.batches;
  if (model_.has_windows()) {
    windows_.on_answer();
    return phase_of_position();
  }
  batch_ = pushed_;
  return phase_of_position();
}

std::uint64_t Trainer::generations() const {
  std::uint64_t all = 0;
  for (const client::ClientLane& lane : lanes_) all = hash_combine(all, lane.server_generation());
  return all;
}

// Every port hears that the job cannot go on from here.
Error Trainer::abandon(std::string why) {
  wire::Abandon message;
  message.set_reason(why);
  message.set_is_unreachable(true);
  for (std::uint32_t shard = 0; shard < lanes_.size(); ++shard) {
    last_words_.push_back({shard, lanes_[shard].notice(FrameType::kAbandon, message)});
  }
  return Error{Errc::kUnreachable, std::move(why)};
}

// A pass that was trained here is saved by trainer 0, then all meet; and once more before they
// leave.
Trainer::Phase Trainer::phase_of_position() {
  const std::uint64_t due = pass_ > start_pass_ ? 1 : 0;
  // Ports that have gone on from the meeting after a save hold what comes after it.
  const bool was_saved = has_saved_ || furthest_ > client::TrainerPosition{pass_, 0, 0};
  if (meetings_ < due) return id_ == 0 && !was_saved ? Phase::kBusy : Phase::kMeet;
  if (pass_ < options_.passes) return phase_of_pass();
  return meetings_ <= due ? Phase::kMeet : Phase::kLeave;
}

Trainer::Phase Trainer::phase_of_pass() {
  const bool is_over = batch_ == options_.batches[id_];
  if (model_.has_windows()) {
    // A batch that is merged with others could not be left out on one lane.
    const bool is_pressing = is_over || is_behind();
    if (is_pressing) windows_.flush();
    if (is_pressing || windows_.is_full() || rng_.uniform() < kSendWindow) {
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
  if (model_.has_rounds()) {
    memory_.push = ReplayLog{generations(), pass_, batch_ + 1, gradients_};
  }
  if (!model_.has_windows()) return;
  windows_.on_gradient({1, 1, 0}, gradients_.dense, {&gradients_.rows, 1});
  ++batch_;
}

void Trainer::begin_phase() {
  if (phase_ == Phase::kReady) recovery_.begin_ready();
  for (std::uint32_t shard = 0; shard < model_.shards(); ++shard) {
    switch (phase_) {
      case Phase::kJoin:
      case Phase::kGoBack:
      case Phase::kReady:
        ask_of_recovery(shard);
        break;
      case Phase::kLoadBegin:
        ask_load_begin(shard);
        break;
      case Phase::kLoad:
        ask_load(shard);
        break;
      case Phase::kPull:
        ask_pull(shard);
        break;
      case Phase::kPushEarly:
      case Phase::kPush:
        if (lacks_push(shard)) ask_push(shard, gradients_, phase_ == Phase::kPushEarly);
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
        memory_.is_leaving = true;
        ask(shard, FrameType::kLeave, wire::Leave());
        break;
      default:
        break;
    }
  }
}

}  // namespace paddle::sim
