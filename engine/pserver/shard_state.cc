#include "engine/pserver/shard_state.h"

#include "base/text.h"

namespace paddle::pserver {
namespace {

constexpr std::size_t kRefusalBytesMax = 4096;  // of its text, before escapes

}  // namespace

net::Outgoing& Replies::add(net::PeerId to, FrameType type, Out& out) const {
  net::Outgoing& outgoing = out.emplace_back();
  outgoing.to = to;
  FrameHeader& header = outgoing.frame.header;
  header.type = static_cast<std::uint8_t>(type);
  header.job_tag = options_.job_tag;
  header.sender = {Role::kPserver, options_.index};
  header.server_generation = progress_.generation;
  header.step = progress_.step;
  return outgoing;
}

void Replies::refuse(net::PeerId to, std::uint64_t request, const Refusal& refusal,
                     Out& out) const {
  wire::Refused message;
  message.set_request(request);
  message.set_code(refusal.code);
  // It may quote the peer. A character that is cut becomes its bytes' escapes.
  message.set_message(escape_control(refusal.message.substr(0, kRefusalBytesMax)));
  message.set_hint(refusal.hint);
  if (refusal.code == wire::REFUSAL_ABANDONED)
    message.set_exit_code(static_cast<std::uint32_t>(refusal.exit_code));
  add(to, FrameType::kRefused, out).frame.head = message.SerializeAsString();
}

void Replies::position(Trainer& trainer, std::uint64_t request, const Membership& membership,
                       const CutSignals& cuts, bool has_rounds, Out& out) const {
  wire::Position message;
  message.set_request(request);
  message.set_last_applied(trainer.last_applied);
  message.set_step(progress_.step);
  message.set_passes_finished(progress_.passes_finished);
  message.set_ready(progress_.ready);
  message.set_passes_loaded(progress_.passes_loaded);
  message.set_pauses(progress_.pauses);
  message.set_has_rounds(has_rounds);
  message.set_samples(progress_.samples);
  message.set_left(progress_.has_leaver);
  for (const std::uint64_t cut : cuts.whole) message.add_cuts(cut);
  for (const Trainer& each : membership.trainers()) {
    message.add_cursors(each.last_applied);
    message.add_pass_batches(each.clock);
  }
  const wire::PassOrigins& origins = progress_.origins;
  if (const auto id = static_cast<int>(trainer.id); id < origins.batches_size()) {
    wire::PassOrigin& origin = *message.mutable_origin();
    origin.set_pass(origins.pass());
    origin.set_batches(origins.batches(id));
    origin.set_records(origins.records(id));
    origin.set_data(origins.data(id));
  }
  trainer.seen_updates = progress_.updates;
  send(trainer, FrameType::kPosition, message, {}, out);
}

}  // namespace paddle::pserver
