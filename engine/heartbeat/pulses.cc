#include "engine/heartbeat/pulses.h"

#include <algorithm>

namespace paddle::heartbeat {

Heard Pulses::on_pulse(TimePoint now, const Pulse& pulse) {
  const auto [found, is_first] = peers_.try_emplace(pack(pulse.from));
  Peer& peer = found->second;
  if (pulse.life < peer.life) return Heard::kNothing;
  if (pulse.life == peer.life && pulse.sequence <= peer.sequence) return Heard::kNothing;
  const bool is_new_life = !is_first && pulse.life > peer.life;
  const bool was_dead = peer.is_dead;
  peer = {pulse.life, pulse.sequence, now, pulse.is_last, false};
  if (is_new_life) return Heard::kNewLife;
  return was_dead ? Heard::kAgain : Heard::kPulse;
}

std::vector<Silence> Pulses::on_tick(TimePoint now) {
  const bool was_stopped = now - looked_ > kOwnGap;
  looked_ = now;
  std::vector<Silence> dead;
  for (auto& [id, peer] : peers_) {
    if (was_stopped) peer.heard = std::max(peer.heard, now - kPeriod);
    if (peer.has_left || peer.is_dead || now - peer.heard < kDeadAfter) continue;
    peer.is_dead = true;
    dead.push_back({unpack(id), peer.life, now - peer.heard});
  }
  return dead;
}

std::vector<Silence> Pulses::silences(TimePoint now) const {
  std::vector<Silence> silent;
  for (const auto& [id, peer] : peers_) {
    if (peer.has_left || now - peer.heard < kSuspectAfter) continue;
    silent.push_back({unpack(id), peer.life, now - peer.heard});
  }
  return silent;
}

}  // namespace paddle::heartbeat
