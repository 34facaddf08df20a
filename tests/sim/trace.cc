#include "tests/sim/trace.h"

#include <cstdlib>
#include <iostream>

#include <fmt/format.h>

namespace paddle::sim {
namespace {

const char* name_of(std::uint8_t type) {
  switch (static_cast<FrameType>(type)) {
    case FrameType::kJoin:
      return "Join";
    case FrameType::kLoadBegin:
      return "LoadBegin";
    case FrameType::kPutDense:
    case FrameType::kPutRows:
      return "Put";
    case FrameType::kGoBack:
      return "GoBack";
    case FrameType::kReady:
      return "Ready";
    case FrameType::kPullDense:
    case FrameType::kPullRows:
      return "Pull";
    case FrameType::kPushDense:
    case FrameType::kPushRows:
      return "Push";
    case FrameType::kFinishPass:
      return "FinishPass";
    case FrameType::kExportRows:
      return "Export";
    case FrameType::kLeave:
      return "Leave";
    case FrameType::kBusy:
      return "Busy";
    case FrameType::kAbandon:
      return "Abandon";
    case FrameType::kRefused:
      return "Refused";
    case FrameType::kWaiting:
      return "Waiting";
    case FrameType::kPosition:
      return "Position";
    case FrameType::kPushed:
      return "Pushed";
    case FrameType::kPassFinished:
      return "PassFinished";
    default:
      return "answer";
  }
}

const char* name_of(EventKind kind) {
  switch (kind) {
    case EventKind::kStartTrainer:
      return "start trainer";
    case EventKind::kStartPserver:
      return "start pserver";
    case EventKind::kFault:
      return "fault";
    case EventKind::kFaultEnds:
      return "end of fault";
    case EventKind::kSilence:
      return "silence of fault";
    default:
      return "closed";
  }
}

}  // namespace

bool traces() {
  static const bool wanted = std::getenv("PADDLE_SIM_TRACE") != nullptr;
  return wanted;
}

void trace(TimePoint now, const std::string& what) {
  const auto since = now.time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
  std::cerr << fmt::format("{:6} ms  {}\n", ms, what);
}

void trace(const Event& event, const Connection* connection) {
  if (connection == nullptr) {
    return trace(event.at, fmt::format("{} {}", name_of(event.kind), event.who));
  }
  const FrameHeader& header = event.frame.header;
  trace(event.at,
        fmt::format(
            "trainer {} (incarnation {}) {} shard {} (generation {})  {}  sequence {} step {}",
            connection->trainer, connection->incarnation, event.to_shard ? "->" : "<-",
            connection->shard, connection->generation,
            event.kind == EventKind::kFrame ? name_of(header.type) : name_of(event.kind),
            header.sequence, header.step));
}

}  // namespace paddle::sim
