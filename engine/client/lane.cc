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
    case wire::REFUSAL_NOT_READY:
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

std::string name_of(const FrameHeader& answer) {
  return fmt::format("the pserver's answer of type {}", answer.type);
}

Error malformed(const FrameHeader& answer) {
  return {Errc::kData, name_of(answer) + " is malformed"};
}

}  // namespace

template <class Message>
Status ClientLane::parse(const FrameHeader& header, std::string_view head) {
  auto& message = head_.emplace<Message>();
  if (!message.ParseFromArray(head.data(), static_cast<int>(head.size()))) return malformed(header);
  head_request_ = message.request();
  return {};
}

Status ClientLane::read_head(const FrameHeader& header, std::string_view head) {
  switch (static_cast<FrameType>(header.type)) {
    case FrameType::kDone:
      return parse<wire::Done>(header, head);
    case FrameType::kStored:
      return parse<wire::Stored>(header, head);
    case FrameType::kDenseValues:
      return parse<wire::DenseValues>(header, head);
    case FrameType::kRowValues:
      return parse<wire::RowValues>(header, head);
    case FrameType::kExportedRows:
      return parse<wire::ExportedRows>(header, head);
    case FrameType::kPosition:
      return parse<wire::Position>(header, head);
    case FrameType::kPushed:
      return parse<wire::Pushed>(header, head);
    case FrameType::kPassFinished:
      return parse<wire::PassFinished>(header, head);
    case FrameType::kShardDescription:
      return parse<wire::ShardDescription>(header, head);
    case FrameType::kWaiting:
      return parse<wire::Waiting>(header, head);
    case FrameType::kRefused:
      return parse<wire::Refused>(header, head);
    default:
      return Error{Errc::kData, fmt::format("frame type {} is not an answer", header.type)};
  }
}

bool ClientLane::is_awaited(const FrameHeader& header, std::string_view head) {
  is_head_read_ = static_cast<bool>(read_head(header, head));
  const bool is_answer = !std::holds_alternative<wire::Waiting>(head_) &&
                         !std::holds_alternative<wire::Refused>(head_);
  return is_head_read_ && is_answer && is_open() && head_request_ == awaited_;
}

Result<std::optional<Frame>> ClientLane::on_frame(Frame&& frame, TimePoint now) {
  const std::optional<Frame> nothing;
  if (!std::exchange(is_head_read_, false)) {
    PADDLE_TRY_STATUS(read_head(frame.header, frame.head));
  }
  if (const auto* const waiting = std::get_if<wire::Waiting>(&head_)) {
    if (!frame.tail.empty()) return malformed(frame.header);
    if (is_past(head_request_)) return nothing;
    if (!is_open(head_request_)) return unasked(frame.header);
    on_waiting(*waiting, now);
    return nothing;
  }
  if (const auto* const refused = std::get_if<wire::Refused>(&head_)) {
    if (is_past(head_request_)) return nothing;
    if (head_request_ > request_) return unasked(frame.header);
    return on_refused(*refused);
  }
  const bool may_come_late = head_request_ <= refused_ || options_.resend_after > Duration::zero();
  if (is_past(head_request_) && may_come_late) return nothing;
  if (!is_open() || head_request_ != awaited_) return unasked(frame.header);
  PADDLE_TRY_STATUS(apply(frame.header));
  ++awaited_;
  copy_.reset();
  return std::optional<Frame>(std::move(frame));
}

void ClientLane::on_waiting(const wire::Waiting& waiting, TimePoint now) {
  waiting_for_ = waiting.reason();
  waits_for_connected_ = waiting.all_connected();
  if (waiting.progress() != progress_) last_progress_ = now;
  progress_ = waiting.progress();
}

// A refusal closes all open requests.
Error ClientLane::on_refused(const wire::Refused& refused) {
  refused_ = request_;
  awaited_ = request_ + 1;
  copy_.reset();
  const bool is_given_up = refused.code() == wire::REFUSAL_ABANDONED;
  const Errc code = is_given_up ? errc_of(refused.exit_code()) : exit_code(refused.code());
  return {code, refused.message(), refused.hint()};
}

// Takes the lane's new position from the awaited answer.
Status ClientLane::apply(const FrameHeader& header) {
  if (const auto* const position = std::get_if<wire::Position>(&head_)) {
    server_generation_ = header.server_generation;
    last_applied_ = position->last_applied();
    step_ = position->step();
    samples_ = position->samples();
  } else if (const auto* const finished = std::get_if<wire::PassFinished>(&head_)) {
    samples_ = finished->job_samples();
    step_ = finished->step();
  } else if (const auto* const pushed = std::get_if<wire::Pushed>(&head_)) {
    stop_asked_ = stop_asked_ || pushed->stop();
    savepoint_asked_ = pushed->savepoint();
    whole_savepoint_ = pushed->whole_savepoint();
    step_ = pushed->step();
    if (pushed->last_applied() == ++last_applied_) return {};
    return Error{Errc::kData,
                 fmt::format("trainer {} pushed batch {}, but the pserver reports batch {} as the "
                             "last one applied",
                             options_.trainer_id, last_applied_, pushed->last_applied())};
  }
  return {};
}

Error ClientLane::unasked(const FrameHeader& answer) const {
  return {Errc::kData,
          fmt::format("{} is for request {}, but {} was expected", name_of(answer), head_request_,
                      is_open() ? fmt::format("request {}", awaited_) : "none")};
}

const Frame* ClientLane::on_tick(TimePoint now) {
  if (!copy_) return nullptr;
  if (now - sent_at_ < options_.resend_after) return nullptr;
  sent_at_ = now;
  return &*copy_;
}

}  // namespace paddle::client
