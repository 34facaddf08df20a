#include "engine/client/lanes.h"

#include <algorithm>

#include <fmt/format.h>

namespace paddle::client {

ClientLanes::ClientLanes(std::string kind, std::vector<std::unique_ptr<net::Link>> links,
                         ClientLane::Options options, std::optional<std::uint16_t> first_lane,
                         Duration deadline)
    : kind_(std::move(kind)), deadline_(deadline) {
  for (auto& link : links) {
    if (first_lane) options.lane = static_cast<std::uint16_t>(*first_lane + lanes_.size());
    lanes_.push_back({std::move(link), ClientLane(options)});
  }
}

void ClientLanes::set_position(TrainerPosition position) {
  position_ = position;
  is_behind_ = link_positions_.is_behind(position);
}

void ClientLanes::on_push(std::uint64_t batches) {
  position_.batches += batches;
  if (!is_behind_) return;
  link_positions_.on_push(position_);
  is_behind_ = link_positions_.is_behind(position_);
}

void ClientLanes::interrupt(const Error& why) {
  for (Lane& lane : lanes_) lane.link->interrupt(why);
}

void ClientLanes::break_off(const Error& why) {
  const std::scoped_lock lock(break_off_->mutex);
  if (!break_off_->why) break_off_->why = why;
}

Status ClientLanes::broken_off() const {
  const std::scoped_lock lock(break_off_->mutex);
  if (break_off_->why) return *break_off_->why;
  return {};
}

void ClientLanes::abandon(const wire::Abandon& message) {
  for (Lane& lane : lanes_) {
    // Errors do not matter here: the shard of a broken link has seen the connection close.
    (void)lane.link->send(lane.core.notice(FrameType::kAbandon, message), {},
                          clock_.now() + kAbandonDeadline);
  }
}

std::string ClientLanes::name(std::size_t lane) const {
  return fmt::format("pserver {} port {} ({})", kind_, lane, lanes_[lane].link->peer());
}

Error ClientLanes::malformed(std::size_t lane, std::string_view what) const {
  return Error{Errc::kData, fmt::format("{}: malformed {} of an answer", name(lane), what)};
}

Error ClientLanes::late(std::size_t lane, const Error& cause) const {
  const std::string& reason = lanes_[lane].core.waiting_for();
  Error error{cause.code, fmt::format("{}: {}", name(lane), cause.message), cause.hint};
  if (!reason.empty()) error.message += fmt::format("; it waits for {}", reason);
  return error;
}

Status ClientLanes::find_closed(std::optional<std::size_t> except) const {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (lane == except || !lanes_[lane].link->is_closed()) continue;
    return Error{Errc::kUnreachable, fmt::format("{} closed the connection", name(lane))};
  }
  return {};
}

Result<Frame> ClientLanes::receive(std::size_t lane, FrameType type, const Place& place) {
  Lane& to = lanes_[lane];
  net::TailPlace place_of;
  if (place) {
    place_of = [&](const FrameHeader& header, std::string_view head, std::size_t tail_bytes) {
      const bool is_answer =
          to.core.is_awaited(header, head) && header.type == static_cast<std::uint8_t>(type);
      return is_answer ? place(tail_bytes) : std::vector<std::span<std::byte>>();
    };
  }
  const TimePoint started = clock_.now();
  TimePoint heard = started;
  // The values of rows wait for nothing, so the port is silent for another reason.
  const Duration silence_max =
      type == FrameType::kRowValues ? std::min(deadline_, pull_silence_max_) : deadline_;
  while (true) {
    PADDLE_TRY_STATUS(broken_off());
    // The port itself must answer within silence_max; what it waits for must advance within
    // `patience`.
    const Duration patience =
        std::min(patience_max_, to.core.waits_for_connected() ? kPeerDeadline : deadline_);
    const TimePoint quiet_since = std::max(started, to.core.last_progress());
    const TimePoint until = std::min(heard + silence_max, quiet_since + patience);
    auto frame = to.link->receive(until, place_of);
    if (!frame) return late(lane, frame.error());
    heard = clock_.now();
    auto answer = to.core.on_frame(*std::move(frame), heard);
    if (!answer) return std::move(answer).error().with(name(lane));
    if (*answer) {
      if ((*answer)->header.type == static_cast<std::uint8_t>(type)) return **std::move(answer);
      return malformed(lane, "type");
    }
    if (on_waiting_ && !to.core.waiting_for().empty()) on_waiting_(to.core.waiting_for());
    // The frame was Waiting. The port may wait for a trainer that another pserver keeps waiting, so
    // check the other lanes for closed connections. This lane is left out: a port may have sent its
    // last frame before it closed the connection, and that frame is still to be received.
    PADDLE_TRY_STATUS(find_closed(lane));
    if (others_ != nullptr) PADDLE_TRY_STATUS(others_->find_closed({}));
    if (heard >= quiet_since + patience) {
      return late(lane, Error{Errc::kUnreachable, "no progress before the deadline"});
    }
  }
}

}  // namespace paddle::client
