// `paddle verify`: reads snapshots whole and names what is damaged.
#include "engine/snapshot/verify.h"

#include <algorithm>
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"
#include "base/text.h"
#include "engine/commands/command.h"
#include "engine/commands/model_flags.h"

namespace paddle::commands {
namespace {

struct VerifyOptions {
  std::string directory;
  bool json = false;
};

std::string as_text(const snapshot::Verdict& verdict) {
  const std::string name = escape_control(verdict.directory);
  if (verdict.error) {
    const bool is_other = verdict.error->code == Errc::kVersion;
    return fmt::format("{}: {}\n", name, is_other ? "OF ANOTHER FORMAT" : "DAMAGED");
  }
  return fmt::format("{}: whole, {} passes, step {}, {} files, {} bytes, id {}\n", name,
                     verdict.passes, verdict.step, verdict.files, verdict.bytes, verdict.id);
}

// {"snapshots":[{"path":"output/pass-00000","whole":true,"id":"0f..","passes":1,"step":744,
//                "files":4,"bytes":469000,"warning":"output/pass-00000/done is missing: .."},
//                {"path":"output/pass-00001","whole":false,"error":".."}]}
std::string as_json_text(const std::vector<snapshot::Verdict>& verdicts) {
  JsonArray snapshots;
  for (const snapshot::Verdict& verdict : verdicts) {
    JsonObject fields;
    fields.add("path", verdict.directory).add("whole", !verdict.error.has_value());
    if (verdict.error) {
      fields.add("error", verdict.error->message);
    } else {
      fields.add("id", verdict.id).add("passes", verdict.passes).add("step", verdict.step);
      fields.add("files", verdict.files).add("bytes", verdict.bytes);
      if (!verdict.warning.empty()) fields.add("warning", verdict.warning);
    }
    snapshots.add(fields);
  }
  return JsonObject().add("snapshots", snapshots).text() + "\n";
}

Status run_verify(const VerifyOptions& options) {
  if (options.directory.empty()) {
    return Error{Errc::kUsage, "verify needs a snapshot, or a folder of them",
                 "paddle verify output/pass-00000"};
  }
  PADDLE_TRY(const auto verdicts, snapshot::verify_all(options.directory));
  if (options.json) {
    std::cout << as_json_text(verdicts);
  } else {
    for (const snapshot::Verdict& verdict : verdicts) std::cout << as_text(verdict);
  }
  std::cout.flush();
  std::vector<std::string> damage;
  std::string hint;
  for (const snapshot::Verdict& verdict : verdicts) {
    warn(escape_control(verdict.warning));
    if (!verdict.error) continue;
    damage.push_back(escape_control(verdict.error->message));
    if (verdict.error->code == Errc::kVersion) hint = verdict.error->hint;
  }
  if (damage.empty()) return {};
  return Error{Errc::kData,
               fmt::format("{} of {} snapshots cannot be used:\n  {}", damage.size(),
                           verdicts.size(), fmt::join(damage, "\n  ")),
               hint.empty() ? "fetch it again; --resume skips it and uses the newest whole one"
                            : std::move(hint)};
}

std::function<Status()> declare_verify(FlagSet& flags) {
  const auto options = std::make_shared<VerifyOptions>();
  flags.positional("DIR", "a pass-0000N folder, or the --save_dir that they are in",
                   options->directory);
  flags.boolean("json", "print one JSON object", options->json);
  return [options] { return run_verify(*options); };
}

}  // namespace

const Command kVerifyCommand{"verify", "read all files of snapshots and report damage",
                             "usage: paddle verify DIR [--json]\n", declare_verify};

}  // namespace paddle::commands
