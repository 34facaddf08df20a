#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/current_cluster.h"
#include "cli/cluster/node_selection.h"
#include "cli/nodes/copy.h"
#include "cli/options/shared_options.h"
#include "remote/push/source.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

struct PutOptions {
  std::string cluster, on;
  std::vector<std::string> paths;
};

OptionList list_options(PutOptions& options) {
  return {cluster_option(options.cluster),
          on_option(options.on),
          {"files", "files or folders here, then the path on the nodes: absolute or from $HOME",
           &options.paths, "FILE"}};
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

Result<std::vector<remote::PushItem>> items_of(const PutOptions& options,
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

Status run(Context& context, const PutOptions& options) {
  const std::string staging = staging_folder(context);
  PADDLE_TRY(const auto items, items_of(options, staging));
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  PADDLE_TRY(const std::vector<std::size_t> nodes, select_nodes(cluster, options.on));
  remote::PushSource source(context.hash_cache, nodes.size());
  ClusterSession session = ClusterSession::unconnected(cluster, nodes);
  const Status done =
      copy_on_each(context, session, [&](Member& member, CopyCounts& report) -> Status {
        PADDLE_TRY(const auto pushed, member.client->push(items, source, nullptr));
        report.bytes_moved = pushed.bytes_on_wire;
        const auto copied = member.client->export_to(staging, options.paths.back());
        const Status removed = member.client->remove(staging);
        if (!copied) return copied.error();
        report.files = copied->files;
        report.bytes = copied->bytes;
        return removed;
      });
  if (const Status kept = source.save(); !kept) context.console.note(kept.error().message);
  return done;
}

}  // namespace

Command put_command() {
  return {"put", "copy files and folders to nodes",
          "  paddlectl put hosts.txt data /srv/\n"
          "  paddlectl put --on node01 model.conf '~/conf/'",
          [] { return invocation(list_options, run); }};
}

}  // namespace paddle::cli
