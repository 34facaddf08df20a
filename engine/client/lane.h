// The protocol of one trainer's lane to one shard. Passive: does no I/O. There is one open request
// at a time, which is sent again until it is answered. Only pulls of rows are pipelined: the shard
// reads the rows of one pull while the answers to earlier pulls are being sent.
#pragma once

#include <variant>

#include "base/clock.h"
#include "proto/frame.h"
#include "proto/wire.pb.h"

namespace paddle::client {

class ClientLane {
 public:
  struct Options {
    std::uint32_t trainer_id = 0;
    std::uint32_t incarnation = 0;
    std::uint64_t job_tag = 0;
    std::uint16_t lane = 0;
    Duration resend_after = Duration::zero();  // zero: never, the link is reliable
  };
  explicit ClientLane(Options options) : options_(options) {}

  // Numbers the message. No other request may be open, except that pulls of rows may follow each
  // other on a reliable link. A push carries last_applied() + 1 as its sequence, any other request
  // last_applied(). Keeps a copy of the frame until its answer if it may have to be sent again.
  template <class Message>
  Frame request(FrameType type, Message message, Bytes&& tail, TimePoint now) {
    message.set_request(++request_);
    return open(type, message.SerializeAsString(), std::move(tail), now);
  }
  // Makes a frame that has no answer.
  template <class Message>
  Frame notice(FrameType type, const Message& message) const {
    return make(type, message.SerializeAsString(), {});
  }
  // Reads the head of a frame whose tail has not arrived yet: whether the frame is the answer to
  // the oldest open request, so that its tail may be placed. The next on_frame() must be for this
  // frame.
  bool is_awaited(const FrameHeader& header, std::string_view head);
  // The answer to the oldest open request; nothing for Waiting, a late copy of an answer, or an
  // answer to a request that a refusal closed. An error if the shard refused, which closes all
  // requests, or broke the protocol, as with an answer to a request that is not awaited.
  Result<std::optional<Frame>> on_frame(Frame&& frame, TimePoint now);
  // The head of the answer that on_frame() has returned last. REQUIRES: its type is Message.
  template <class Message>
  const Message& answer() const {
    return std::get<Message>(head_);
  }
  // The frame to send again now, or null.
  const Frame* on_tick(TimePoint now);

  bool is_open() const { return awaited_ <= request_; }
  std::uint64_t last_applied() const { return last_applied_; }
  std::uint64_t step() const { return step_; }
  // Samples of all trainers, at the shard's last Position or at the end of the last pass.
  std::uint64_t samples() const { return samples_; }
  std::uint64_t server_generation() const { return server_generation_; }
  bool stop_asked() const { return stop_asked_; }  // by any trainer of the job
  // From the answer to the last push: whether the next push must ask for a savepoint, and the
  // newest savepoint that the shard can go back to.
  bool savepoint_asked() const { return savepoint_asked_; }
  std::uint64_t whole_savepoint() const { return whole_savepoint_; }
  // The reason in the last Waiting ("" without one), and the time of the last progress that a
  // Waiting reported.
  const std::string& waiting_for() const { return waiting_for_; }
  TimePoint last_progress() const { return last_progress_; }
  bool waits_for_connected() const { return waits_for_connected_; }

 private:
  Frame make(FrameType type, std::string head, Bytes tail) const;
  Frame open(FrameType type, std::string head, Bytes tail, TimePoint now);
  bool is_open(std::uint64_t request) const { return awaited_ <= request && request <= request_; }
  bool is_past(std::uint64_t request) const { return request > 0 && request < awaited_; }
  Status read_head(const FrameHeader& header, std::string_view head);
  template <class Message>
  Status parse(const FrameHeader& header, std::string_view head);
  void on_waiting(const wire::Waiting& waiting, TimePoint now);
  Error on_refused(const wire::Refused& refused);
  Status apply(const FrameHeader& header);
  Error unasked(const FrameHeader& answer) const;

  using Head = std::variant<wire::Done, wire::Stored, wire::DenseValues, wire::RowValues,
                            wire::ExportedRows, wire::Position, wire::Pushed, wire::PassFinished,
                            wire::ShardDescription, wire::Waiting, wire::Refused>;

  Options options_;
  Head head_;                       // of the last frame
  std::uint64_t head_request_ = 0;  // the request that it answers
  bool is_head_read_ = false;       // by is_awaited(), before the frame itself
  std::uint64_t server_generation_ = 0;
  std::uint64_t request_ = 0;  // number of the last request
  std::uint64_t awaited_ = 1;
  std::uint64_t refused_ = 0;  // requests up to this one were closed by a refusal
  bool pulls_rows_ = false;    // the last request is a pull of rows
  std::uint64_t last_applied_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t samples_ = 0;
  bool stop_asked_ = false;
  bool savepoint_asked_ = false;
  std::uint64_t whole_savepoint_ = 0;
  std::optional<Frame> copy_;  // frame of the open request, to be sent again
  TimePoint sent_at_;
  std::string waiting_for_;
  std::uint64_t progress_ = 0;
  bool waits_for_connected_ = false;
  TimePoint last_progress_;
};

}  // namespace paddle::client
