#include "cli/console/next_step.h"

namespace paddle::cli {

std::string_view next_step(Errc code) {
  switch (code) {
    case Errc::kFailed:
      return "mend what is named, and run the same command again";
    case Errc::kUsage:
      return "paddlectl <command> --help has the options, docs/ the files' keys";
    case Errc::kVersion:
      return "a node needs Linux on x86-64; paddlectl, paddlectl-agent and paddle must come from "
             "one build, see: paddlectl version";
    case Errc::kUnreachable:
      return "see that the node is up and that `ssh` reaches it, and run the same command again: "
             "it goes on from where it was";
    case Errc::kAuth:
      return "see that `ssh` logs in to the node with this user and key";
    case Errc::kData:
      return "run the same command again; if it says the same, that file or program is damaged or "
             "of another version";
    case Errc::kResource:
      return "free what is short (disk, memory, port, open files), and run the same command again";
    case Errc::kResumable:
    case Errc::kInterrupted:
      break;
  }
  return "";
}

}  // namespace paddle::cli
