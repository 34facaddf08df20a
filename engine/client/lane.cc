#include "engine/client/lane.h"

#include <fmt/format.h>

namespace paddle::client {
namespace {

Errc exit_code(wire::RefusalCode code) {
  switch (code) {
    case wire::REFUSAL_DUPLICATE_TRAINER:
    case wire::REFUSAL_PARAMETERS:
    case wire::REFUSAL_WRONG_JOB:
      return Errc::kUsage;
    case wire::REFUSAL_LIMIT:
      return Errc::kResource;
    case wire::REFUSAL_TRAINER_LOST:
    case wire::REFUSAL_STALE_GENERATION:
      return Errc::kUnreachable;
    default:
      return Errc::kFailed;
  }
}

}  // namespace

Frame ClientLane::make(FrameType type, std::string head, Bytes tail) const {
  const bool is_push = type == FrameType::kPushDense || type == FrameType::kPushRows;
  Frame frame;
  frame.header.type = static_cast<std::uint8_t>(type);
  frame.header.job_tag = options_.job_tag;
  frame.header.sender = {Role::kTrainer, options_.trainer_id};
  frame.header.incarnation = options_.incarnation;
  frame.header.server_generation = server_generation_;
  frame.header.sequence = last_applied_ + (is_push ? 1 : 0);
  frame.header.step = step_;
  frame.header.lane = options_.lane;
  frame.head = std::move(head);
  frame.tail = std::move(tail);
  return frame;
}

Frame ClientLane::open(FrameType type, std::string head, Bytes tail, TimePoint now) {
  const bool follows =
      pulls_rows_ && type == FrameType::kPullRows && options_.resend_after == Duration::zero();
  PADDLE_CHECK(awaited_ == request_ || follows);  // only this request is open, or pulls before it
  pulls_rows_ = type == FrameType::kPullRows;
  Frame frame = make(type, std::move(head), std::move(tail));
  sent_at_ = last_progress_ = now;
  waiting_for_.clear();
  waits_for_connected_ = false;
  if (options_.resend_after > Duration::zero()) copy_ = frame;
  return frame;
}

namespace {

std::string name_of(const Frame& answer) {
  return fmt::format("the pserver's answer of type {}", answer.header.type);
}

template <class Message>
Status parse(const Frame& frame, Message& message) {
  if (message.ParseFromString(frame.head)) return {};
  return Error{Errc::kData, name_of(frame) + " is malformed"};
}

}  // namespace

Error ClientLane::unasked(const Frame& answer, std::uint64_t request) const {
  return Error{Errc::kData,
               fmt::format("{} is for request {}, but {} was expected", name_of(answer), request,
                           is_open() ? fmt::format("request {}", awaited_) : "none")};
}

// Reads the request number, and applies the lane's new position if this is the awaited answer.
Status ClientLane::take(const Frame& frame, std::uint64_t& request) {
  const auto type = static_cast<FrameType>(frame.header.type);
  const auto read = [&](auto message, auto&& apply) -> Status {
    PADDLE_TRY_STATUS(parse(frame, message));
    request = message.request();
    if (is_open() && request == awaited_) apply(message);
    return {};
  };
  const auto nothing = [](const auto&) {};
  switch (type) {
    case FrameType::kDone:
      return read(wire::Done(), nothing);
    case FrameType::kStored:
      return read(wire::Stored(), nothing);
    case FrameType::kDenseValues:
      return read(wire::DenseValues(), nothing);
    case FrameType::kRowValues:
      return read(wire::RowValues(), nothing);
    case FrameType::kExportedRows:
      return read(wire::ExportedRows(), nothing);
    case FrameType::kPosition:
      return read(wire::Position(), [&](const wire::Position& position) {
        server_generation_ = frame.header.server_generation;
        last_applied_ = position.last_applied();
        step_ = position.step();
        samples_ = position.samples();
      });
    case FrameType::kPushed: {
      std::uint64_t last = last_applied_ + 1;
      PADDLE_TRY_STATUS(read(wire::Pushed(), [&](const wire::Pushed& pushed) {
        last = pushed.last_applied();
        stop_asked_ = stop_asked_ || pushed.stop();
        savepoint_asked_ = pushed.savepoint();
        whole_savepoint_ = pushed.whole_savepoint();
        step_ = pushed.step();
      }));
      if (!is_open() || request != awaited_) return {};
      if (last == ++last_applied_) return {};
      return Error{Errc::kData, fmt::format("trainer {} pushed batch {}, but the pserver reports "
                                            "batch {} as the last one applied",
                                            options_.trainer_id, last_applied_, last)};
    }
    case FrameType::kPassFinished:
      return read(wire::PassFinished(), [&](const wire::PassFinished& finished) {
        samples_ = finished.job_samples();
        step_ = finished.step();
      });
    default:
      return Error{Errc::kData, fmt::format("frame type {} is not an answer", frame.header.type)};
  }
}

Result<std::optional<Frame>> ClientLane::on_frame(Frame&& frame, TimePoint now) {
  const std::optional<Frame> nothing;
  const auto type = static_cast<FrameType>(frame.header.type);
  if (type == FrameType::kWaiting) {
    wire::Waiting waiting;
    PADDLE_TRY_STATUS(parse(frame, waiting));
    if (!frame.tail.empty()) return Error{Errc::kData, name_of(frame) + " is malformed"};
    if (is_past(waiting.request())) return nothing;
    if (!is_open(waiting.request())) return unasked(frame, waiting.request());
    waiting_for_ = waiting.reason();
    waits_for_connected_ = waiting.all_connected();
    if (waiting.progress() != progress_) last_progress_ = now;
    progress_ = waiting.progress();
    return nothing;
  }
  if (type == FrameType::kRefused) {
    wire::Refused refused;
    PADDLE_TRY_STATUS(parse(frame, refused));
    if (is_past(refused.request())) return nothing;
    if (refused.request() > request_) return unasked(frame, refused.request());
    refused_ = request_;
    awaited_ = request_ + 1;
    copy_.reset();
    const bool is_given_up = refused.code() == wire::REFUSAL_ABANDONED;
    const Errc code = is_given_up ? errc_of(refused.exit_code()) : exit_code(refused.code());
    return Error{code, refused.message(), refused.hint()};
  }
  std::uint64_t request = 0;
  PADDLE_TRY_STATUS(take(frame, request));
  const bool may_come_late = request <= refused_ || options_.resend_after > Duration::zero();
  if (is_past(request) && may_come_late) return nothing;
  if (!is_open() || request != awaited_) return unasked(frame, request);
  ++awaited_;
  copy_.reset();
  return std::optional<Frame>(std::move(frame));
}

const Frame* ClientLane::on_tick(TimePoint now) {
  if (!copy_) return nullptr;
  if (now - sent_at_ < options_.resend_after) return nullptr;
  sent_at_ = now;
  return &*copy_;
}

}  // namespace paddle::client
