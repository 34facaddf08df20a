#include "cli/nodes/copy.h"

#include <unistd.h>

#include <fmt/format.h>

namespace paddle::cli {

std::string staging_folder(const Context& context) {
  return fmt::format(".paddlectl-copies/{}-{}", context.unix_seconds(), ::getpid());
}

namespace {

std::string state_of(const Member& member, const CopyCounts& counts) {
  if (member.error) return "FAILED";
  if (counts.gone == 0) return "done";
  return fmt::format("done but for {} removed meanwhile", counts.gone);
}

}  // namespace

Status copy_on_each(Context& context, ClusterSession& session,
                    const std::function<Status(Member&, CopyCounts&)>& work) {
  std::vector<CopyCounts> all(session.members().size());
  const auto index = [&](const Member& member) {
    return static_cast<std::size_t>(&member - session.members().data());
  };
  const Status done =
      session.visit(context, [&](Member& member) { return work(member, all[index(member)]); });
  Table table{{{"node", "node"},
               {"files", "files", 0, true},
               {"size", "bytes", 0, true},
               {"moved", "bytes_moved", 0, true},
               {"state", "state"}},
              {}};
  for (const Member& member : session.members()) {
    const CopyCounts& counts = all[index(member)];
    table.rows.push_back({text_cell(member.spec.name), number_cell(counts.files),
                          bytes_cell(counts.bytes), bytes_cell(counts.bytes_moved),
                          text_cell(state_of(member, counts))});
  }
  context.console.table(table);
  return done;
}

}  // namespace paddle::cli
