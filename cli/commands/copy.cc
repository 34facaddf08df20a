// put and get: copies between nodes and this machine, through a temporary folder on the node.
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <set>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/cluster/cluster_session.h"
#include "cli/cluster/selection.h"
#include "cli/job/disk_room.h"
#include "cli/job/results.h"
#include "cli/options/shared_options.h"
#include "remote/push/source.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

struct CopyCounts {
  std::uint64_t files = 0, bytes = 0;
  std::uint64_t bytes_moved = 0;  // over the connection
  std::uint64_t gone = 0;         // files removed on the node before they could be copied
};

// A folder below the nodes' root with a name of its own for each command.
std::string staging_folder(const Context& context) {
  return fmt::format(".paddlectl-copies/{}-{}", context.unix_seconds(), ::getpid());
}

std::string state_of(const Member& member, const CopyCounts& counts) {
  if (member.error) return "FAILED";
  if (counts.gone == 0) return "done";
  return fmt::format("done but for {} removed meanwhile", counts.gone);
}

// Connects to each node, calls work and disconnects, then prints one table. An error names every
// failed node.
Status copy_on_each(Context& context, ClusterSession& session,
                    const std::function<Status(Member&, CopyCounts&)>& work) {
  std::vector<CopyCounts> all(session.members().size());
  Status done = session.visit(
      context, [&](Member& member) { return work(member, all[session.index_of(member)]); });
  Table table{{{"node", "node"},
               {"files", "files", 0, true},
               {"size", "bytes", 0, true},
               {"moved", "bytes_moved", 0, true},
               {"state", "state"}},
              {}};
  for (const Member& member : session.members()) {
    const CopyCounts& counts = all[session.index_of(member)];
    table.rows.push_back({text_cell(member.spec.name), number_cell(counts.files),
                          bytes_cell(counts.bytes), bytes_cell(counts.bytes_moved),
                          text_cell(state_of(member, counts))});
  }
  context.console.table(table);
  return done;
}

struct CopyOptions {
  std::string cluster, on;
  std::vector<std::string> paths;
};

OptionList put_options(CopyOptions& options) {
  return {cluster_option(options.cluster),
          on_option(options.on),
          {.name = "files",
           .help = "files or folders here, then the path on the nodes: absolute or from $HOME",
           .target = &options.paths,
           .value_name = "FILE",
           .required = true}};
}

// Adds a file, or a folder with everything below it, under its own name. Symbolic links stay links.
Status add_path(const fs::path& given, const std::string& staging,
                std::vector<remote::PushItem>& items) {
  std::error_code error;
  fs::path path = fs::absolute(given, error).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const std::string name = staging + "/" + path.filename().string();
  if (fs::is_regular_file(path, error)) {
    items.push_back({path.string(), name});
    return {};
  }
  if (!fs::exists(path, error)) {
    return Error{Errc::kUsage,
                 fmt::format("{}: {}", given.string(), error ? error.message() : "no such file"),
                 "paddlectl put FILE... DESTINATION"};
  }
  if (!fs::is_directory(path, error)) {
    return Error{Errc::kUsage, fmt::format("{} is neither a file nor a folder", given.string()),
                 "paddlectl put FILE... DESTINATION"};
  }
  fs::recursive_directory_iterator at(path, error), end;
  for (; !error && at != end; at.increment(error)) {
    const std::string below = name + "/" + at->path().lexically_relative(path).string();
    if (at->is_symlink(error)) {
      items.push_back({"", below, false, fs::read_symlink(at->path(), error).string()});
    } else if (at->is_regular_file(error)) {
      items.push_back({at->path().string(), below});
    }
  }
  if (error) return Error{Errc::kUsage, path.string() + ": " + error.message(), ""};
  return {};
}

Result<std::vector<remote::PushItem>> items_of(const CopyOptions& options,
                                               const std::string& staging) {
  if (options.paths.size() < 2) {
    return Error{Errc::kUsage, "give at least one file and the destination on the nodes",
                 "paddlectl put data.txt /srv/data/"};
  }
  std::vector<remote::PushItem> items;
  for (std::size_t i = 0; i + 1 < options.paths.size(); ++i)
    PADDLE_TRY_STATUS(add_path(options.paths[i], staging, items));
  std::set<std::string> names;
  for (const remote::PushItem& item : items) {
    if (names.insert(item.remote_path).second) continue;
    return Error{Errc::kUsage,
                 "two files would have the name " + item.remote_path.substr(staging.size() + 1),
                 "put them one after the other into folders of their own"};
  }
  if (items.empty()) return Error{Errc::kUsage, "no file there", ""};
  return items;
}

Status run_put(Context& context, const CopyOptions& options) {
  const std::string staging = staging_folder(context);
  PADDLE_TRY(const auto items, items_of(options, staging));
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  PADDLE_TRY(const std::vector<std::size_t> nodes, choose_nodes(context, cluster, options.on));
  remote::PushSource source(context.hash_cache, nodes.size());
  ClusterSession session = ClusterSession::unconnected(cluster, nodes);
  Status done = copy_on_each(context, session, [&](Member& member, CopyCounts& report) -> Status {
    PADDLE_TRY(const auto pushed, member.client->push(items, source, nullptr));
    report.bytes_moved = pushed.bytes_on_wire;
    auto copied = member.client->export_to(staging, options.paths.back());
    Status removed = member.client->remove(staging);
    if (!copied) return std::move(copied).error();
    report.files = copied->files;
    report.bytes = copied->bytes;
    return removed;
  });
  if (const Status kept = source.save(); !kept) context.console.note(kept.error().message);
  return done;
}

OptionList get_options(CopyOptions& options) {
  return {cluster_option(options.cluster),
          on_option(options.on),
          {.name = "paths",
           .help = "the path on the nodes, absolute or from $HOME, then the folder here",
           .target = &options.paths,
           .required = true}};
}

// `name` is that of the file or folder asked for: a node gives nothing beside it.
Status fetch_staged(Member& member, const std::string& staging, const std::string& name,
                    const fs::path& local, DiskRoom& room, CopyCounts& report) {
  PADDLE_TRY(const auto entries, member.client->list(staging));
  std::vector<remote::FetchItem> wanted;
  for (const remote::FileEntry& entry : entries) {
    if (entry.path.substr(0, entry.path.find('/')) != name) {
      return Error{Errc::kData,
                   fmt::format("node {}: it gives {} in place of {}", member.spec.name,
                               escape_control(entry.path), name),
                   "look at the node: it does not send what it is asked for"};
    }
    PADDLE_TRY(const std::string target,
               fetch_target(local, member.spec.name + "/" + entry.path, "choose another folder"));
    wanted.push_back({staging + "/" + entry.path, target, entry.size, entry.sha256});
    report.bytes += entry.size;
  }
  report.files = wanted.size();
  PADDLE_TRY_STATUS(room.reserve(member.spec.name, wanted));
  return member.client->fetch(wanted);
}

Status run_get(Context& context, const CopyOptions& options) {
  if (options.paths.size() != 2) {
    return Error{Errc::kUsage, "give the path on the nodes and the folder here",
                 "paddlectl get /var/log/syslog logs"};
  }
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  PADDLE_TRY(const std::vector<std::size_t> nodes, choose_nodes(context, cluster, options.on));
  const std::string name = (fs::path(options.paths[0]) / "").parent_path().filename();
  const std::string staging = staging_folder(context);
  const fs::path local = fs::path(context.directory) / options.paths[1];
  DiskRoom room(local, shown_path(context, local.string()));
  ClusterSession session = ClusterSession::unconnected(cluster, nodes);
  return copy_on_each(context, session, [&](Member& member, CopyCounts& report) -> Status {
    const auto taken = member.client->import_from(options.paths[0], staging);
    Status fetched;
    if (taken) {
      fetched = fetch_staged(member, staging, name, local, room, report);
    }
    const Status removed = member.client->remove(staging);
    if (!taken) return taken.error();
    report.bytes_moved = report.bytes;
    report.gone = taken->gone;
    return fetched ? removed : fetched;
  });
}

}  // namespace

Command put_command() {
  return {"put", "copy files and folders to nodes",
          "  paddlectl put hosts.txt data /srv/\n"
          "  paddlectl put --on node01 model.conf '~/conf/'",
          [] { return invocation(put_options, run_put); }};
}

Command get_command() {
  return {"get", "copy a file or folder from nodes, into one folder per node",
          "  paddlectl get /var/log/syslog logs\n"
          "  paddlectl get --on node[01-04] '~/results' results",
          [] { return invocation(get_options, run_get); }};
}

}  // namespace paddle::cli
