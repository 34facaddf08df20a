// put and get: copies between nodes and this machine, through a temporary folder on the node.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "base/tree.h"
#include "cli/cluster/cluster_session.h"
#include "cli/cluster/node_list.h"
#include "cli/cluster/selection.h"
#include "cli/commands/shared_options.h"
#include "cli/job/results.h"
#include "proto/agent.pb.h"
#include "remote/client/push_source.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPathsShownMax = 5;
constexpr std::size_t kNameBytesMax = 255;
constexpr const char* kOtherFolder = "choose another folder";

struct CopyCounts {
  std::uint64_t files = 0, bytes = 0;
  std::uint64_t bytes_moved = 0;  // over the connection
  std::uint64_t gone = 0;         // files removed on the node before they could be copied
  std::uint64_t left_out = 0;     // neither files, folders nor links
  std::uint64_t unreadable = 0;   // files and folders that the node's user may not read
};

// A folder below the nodes' root; its name is unique for each command.
std::string staging_folder(const Context& context) {
  return fmt::format(".paddlectl-copies/{}-{}", context.unix_seconds(), ::getpid());
}

// The path on a node at which the content of file `number` is staged.
std::string staged(const std::string& staging, std::uint32_t number) {
  return fmt::format("{}/{}", staging, number);
}

// Replaces staged names in the error by the names that the user knows.
Error with_names(Error error, const std::string& staging,
                 const std::function<std::string(std::uint32_t number)>& name_of) {
  const std::string begin = staging + "/";
  for (std::size_t at = 0; (at = error.message.find(begin, at)) != std::string::npos;) {
    const char* const end = error.message.data() + error.message.size();
    std::uint32_t number = 0;
    const auto [rest, wrong] =
        std::from_chars(error.message.data() + at + begin.size(), end, number);
    const std::string name = wrong == std::errc() ? name_of(number) : "";
    const auto size = static_cast<std::size_t>(rest - error.message.data()) - at;
    error.message.replace(at, size, name);
    at += name.size();
  }
  return error;
}

std::string state_of(const Member& member, const CopyCounts& counts) {
  std::vector<std::string> lacks;
  if (counts.unreadable > 0)
    lacks.push_back(fmt::format("{} that cannot be read", counts.unreadable));
  if (member.error && lacks.empty()) return "FAILED";
  if (counts.gone > 0) lacks.push_back(fmt::format("{} removed meanwhile", counts.gone));
  if (counts.left_out > 0) lacks.push_back(fmt::format("{} that are not files", counts.left_out));
  if (lacks.empty()) return "done";
  return fmt::format("done, except for {}", fmt::join(lacks, ", "));
}

// The error for files that could not be read; all others are copied.
Error unreadable(const std::string& node, const wire::agent::CopyReply& taken) {
  const auto shown = std::min(static_cast<int>(kPathsShownMax), taken.unreadable_names_size());
  const auto first = taken.unreadable_names().begin();
  return {
      Errc::kFailed,
      fmt::format("node {}: {} cannot be read: {}{}; the rest is copied", node, taken.unreadable(),
                  fmt::join(first, first + shown, ", "),
                  taken.unreadable() > static_cast<std::uint64_t>(shown) ? ", ..." : ""),
      "log in as a user with read access, or make a copy on the node first: paddlectl exec -- sudo "
      "cp ..."};
}

void note_left_out(Context& context, std::uint64_t count, const std::vector<std::string>& names,
                   const std::string& where) {
  if (count == 0) return;
  const auto shown = static_cast<std::ptrdiff_t>(std::min(kPathsShownMax, names.size()));
  context.console.note(
      fmt::format("{}{} left out, because sockets, pipes and devices are not copied: {}{}", where,
                  count, fmt::join(names.begin(), names.begin() + shown, ", "),
                  count > static_cast<std::uint64_t>(shown) ? ", ..." : ""));
}

// Connects to each node, calls work and disconnects, then prints one table. An error names every
// failed node.
Status copy_on_each(Context& context, ClusterSession& session,
                    const std::function<Status(Member&, CopyCounts&)>& work) {
  std::vector<CopyCounts> all(session.members().size());
  Status done = session.visit(context, [&](Member& member) {
    member.client->set_interrupted([&context] { return context.interrupted(); });
    return work(member, all[session.index_of(member)]);
  });
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

// Refuses a path that means something to scp or a shell, and would be an odd file name here.
Status check_node_path(const ClusterSpec& cluster, const std::string& path, bool is_put) {
  const auto command = [is_put](const std::string& on, std::string right) {
    if (right.empty()) right = "PATH";
    return fmt::format("paddlectl {} {}{}{}{}", is_put ? "put" : "get", on,
                       is_put ? "FILE... " : "", right, is_put ? "" : " FOLDER");
  };
  const std::string as_name = "; for a file of that name: ./" + path;
  if (path.empty()) return Error{Errc::kUsage, "the path on the nodes is empty", command("", "")};
  if (path.size() > 1 && path[0] == '~' && path[1] != '/') {
    return Error{Errc::kUsage,
                 fmt::format("{}: '~' can mean only the home folder of the login user", path),
                 "give the absolute path" + as_name};
  }
  if (std::ranges::any_of(fs::path(path), [](const fs::path& name) {
        return name.native().size() > kNameBytesMax;
      })) {
    return Error{Errc::kUsage,
                 fmt::format("{}: a name in it has over {} bytes", path, kNameBytesMax),
                 "give a shorter name: file systems take no longer one"};
  }
  const std::string before = path.substr(0, path.find(':'));
  if (before.size() == path.size() || before.find('/') != before.npos) return {};
  const std::string node = split_host(before).host;
  if (node.empty() || !select_nodes(cluster, node)) return {};
  return Error{Errc::kUsage, path + " contains a node name, but only a path is expected",
               command("--on " + node + " ", path.substr(before.size() + 1)) + as_name};
}

// Adds a hint if the path was not found and looks like a pattern.
Error with_pattern_hint(Error error, const std::string& path) {
  if (error.code == Errc::kFailed && path.find_first_of("*?[") != path.npos)
    error.hint = "patterns are not expanded on nodes: get the whole folder";
  return error;
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

// The files and folders that `put` sends: file contents, staged under numbers, and the tree that
// the nodes make from them.
class PutTree {
 public:
  explicit PutTree(std::string staging) : staging_(std::move(staging)) {}

  // Adds a file, or a folder with everything below it, under its own name. A link that the user
  // names is followed; links below a folder stay links.
  Status add_path(const fs::path& given) {
    constexpr const char* kUsage = "paddlectl put FILE... DESTINATION";
    std::error_code error;
    fs::path path = fs::absolute(given, error).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    const fs::file_status status = fs::status(path, error);
    if (fs::is_fifo(status) || fs::is_socket(status) || fs::is_character_file(status)) {
      return Error{Errc::kUsage,
                   fmt::format("{} is no file, but a {}", given.string(),
                               fs::is_fifo(status)     ? "pipe"
                               : fs::is_socket(status) ? "socket"
                                                       : "device"),
                   "write its content to a file first, and put that"};
    }
    const fs::path real = fs::canonical(path, error);
    if (error) {
      return Error{Errc::kUsage,
                   fmt::format("{}: {}", given.string(),
                               error == std::errc::no_such_file_or_directory ? "no such file"
                                                                             : error.message()),
                   kUsage};
    }
    if (!real.has_filename()) {
      return Error{Errc::kUsage, "/ cannot be copied as a whole",
                   "name the folders in it that you need"};
    }
    const UniqueFd above(::open(real.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!above) return system_error(Errc::kUsage, "read " + real.parent_path().string());
    const std::string name = path.has_filename() ? path.filename() : real.filename();
    PADDLE_TRY(const TreeEntry top, entry_at(above.get(), real.filename().string(), name));
    if (top.kind == TreeEntry::Kind::kFile) return add(top, path.string(), false);
    if (!top.is_folder()) {
      return Error{Errc::kUsage, fmt::format("{} is neither a file nor a folder", given.string()),
                   kUsage};
    }
    const UniqueFd folder(::open(real.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder) return system_error(Errc::kUsage, "read " + given.string());
    PADDLE_TRY_STATUS(add(top, "", true));
    // From here on, no link can replace a folder or a file.
    TreeWalk walk([&](const TreeEntry& entry, int, const std::string&) -> Result<bool> {
      const std::string below = entry.path.substr(name.size() + 1);
      PADDLE_TRY_STATUS(add(entry, (real / below).string(), true));
      return true;
    });
    return walk.run(folder.get(), name);
  }

  const std::vector<remote::PushItem>& items() const { return items_; }
  const remote::CopyTree& tree() const { return tree_; }
  std::uint64_t left_out() const { return left_out_; }
  const std::vector<std::string>& left_out_names() const { return left_out_names_; }

 private:
  Status add(const TreeEntry& entry, const std::string& local, bool no_links) {
    if (entry.kind == TreeEntry::Kind::kOther) {
      if (++left_out_ <= kPathsShownMax) left_out_names_.push_back(escape_control(entry.path));
      return {};
    }
    const auto [before, is_new] = names_.emplace(entry.path, entry.kind);
    const bool joins = !is_new && entry.is_folder() && before->second == entry.kind;
    if (joins) return {};
    if (!is_new) {
      return Error{Errc::kUsage, "two files would have the name " + escape_control(entry.path),
                   "put each into its own folder, one after the other"};
    }
    remote::CopiedEntry copied{entry};
    if (entry.kind == TreeEntry::Kind::kFile) {
      copied.number = static_cast<std::uint32_t>(items_.size() + 1);
      items_.push_back({local, staged(staging_, copied.number), false, "", no_links});
    }
    tree_.push_back(std::move(copied));
    return {};
  }

  std::string staging_;
  std::vector<remote::PushItem> items_;
  remote::CopyTree tree_;
  std::map<std::string, TreeEntry::Kind> names_;
  std::uint64_t left_out_ = 0;
  std::vector<std::string> left_out_names_;
};

Status run_put(Context& context, const CopyOptions& options) {
  if (options.paths.size() < 2) {
    return Error{Errc::kUsage, "give at least one file and the destination on the nodes",
                 "paddlectl put data.txt /srv/data/"};
  }
  const std::string staging = staging_folder(context);
  PutTree put(staging);
  for (std::size_t i = 0; i + 1 < options.paths.size(); ++i) {
    // "" would mean the current folder; it is more likely a variable that is not set.
    if (options.paths[i].empty()) {
      return Error{Errc::kUsage, "the name of a file to copy is empty",
                   "the current folder is `.`; perhaps a variable is not set"};
    }
    PADDLE_TRY_STATUS(put.add_path(fs::path(context.directory) / options.paths[i]));
  }
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  PADDLE_TRY_STATUS(check_node_path(cluster, options.paths.back(), true));
  note_left_out(context, put.left_out(), put.left_out_names(), "");
  PADDLE_TRY(const std::vector<std::size_t> nodes, choose_nodes(context, cluster, options.on));
  remote::PushSource source(context.hash_cache, nodes.size());
  ClusterSession session = ClusterSession::unconnected(cluster, nodes);
  const auto goes_on = [&](std::uint64_t, std::uint64_t) { return !context.interrupted(); };
  Status done = copy_on_each(context, session, [&](Member& member, CopyCounts& report) -> Status {
    const auto pushed = member.client->push(put.items(), source, goes_on);
    if (!pushed) {
      return with_names(pushed.error(), staging, [&](std::uint32_t number) {
        return number - 1 < put.items().size() ? put.items()[number - 1].local_path : "";
      });
    }
    report.bytes_moved = pushed->bytes_on_wire;
    auto copied = member.client->export_to(put.tree(), staging, options.paths.back());
    Status removed = member.client->remove(staging);
    if (!copied) return std::move(copied).error();
    report.files = copied->files();
    report.bytes = copied->bytes();
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

// Makes and opens the folder of a node; nothing is written outside it. The errors are those of
// make_output_folder().
Result<std::shared_ptr<const UniqueFd>> open_folder_of(const Context& context,
                                                       const std::string& node,
                                                       const fs::path& local) {
  PADDLE_TRY(const fs::path place, make_output_folder(context, local.string(), node, kOtherFolder));
  auto folder = std::make_shared<UniqueFd>(
      ::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!*folder) return system_error(Errc::kResource, "open " + place.string());
  return std::shared_ptr<const UniqueFd>(std::move(folder));
}

// Checks that the node sends only `name`, the file or folder that was asked for.
Status check_given(const Member& member, const remote::CopyTree& tree, const std::string& name) {
  for (const remote::CopiedEntry& copied : tree) {
    const std::string& path = copied.entry.path;
    if (path.substr(0, path.find('/')) == name) continue;
    return Error{Errc::kData,
                 fmt::format("node {}: it sent {} instead of {}", member.spec.name,
                             escape_control(path), name),
                 "check the node: it did not send the requested file"};
  }
  return {};
}

// Writes the files that the node sends, with modes and times. `mode_kept`: mode bits that are kept.
Status fetch_staged(const Context& context, Member& member, const remote::CopyTree& tree,
                    const std::string& staging, const fs::path& local, std::uint32_t mode_kept,
                    DiskRoom& room) {
  const std::string& node = member.spec.name;
  PADDLE_TRY(const auto folder, open_folder_of(context, node, local));
  using Kind = TreeEntry::Kind;
  std::vector<remote::FetchItem> wanted;
  for (const auto& [entry, number, sha256] : tree) {
    if (entry.kind != Kind::kFile) continue;
    wanted.push_back({staged(staging, number), entry.path, entry.size, sha256, folder,
                      entry.mode & mode_kept, entry.mtime_ns});
  }
  PADDLE_TRY_STATUS(room.reserve(node, wanted));
  TreeWriter writer(folder->get(), mode_kept);
  const auto here = [&](Status status) {
    return std::move(status).with("node " + node + ": " + (local / node).string());
  };
  for (const remote::CopiedEntry& copied : tree) {
    if (copied.entry.is_folder()) PADDLE_TRY_STATUS(here(writer.make_folder(copied.entry)));
  }
  Status fetched = member.client->fetch(wanted);
  for (const remote::CopiedEntry& copied : tree) {
    if (fetched && copied.entry.kind == Kind::kLink) fetched = here(writer.make_link(copied.entry));
  }
  Status finished = here(writer.finish());
  if (fetched) return finished;
  return with_names(fetched.error(), staging, [&](std::uint32_t number) {
    const auto found = std::ranges::find(tree, number, &remote::CopiedEntry::number);
    return found == tree.end() ? "" : escape_control(found->entry.path);
  });
}

// The mode bits that a file written here may have.
std::uint32_t without_umask() {
  const mode_t mask = ::umask(077);
  ::umask(mask);
  return kKeptModeBits & ~static_cast<std::uint32_t>(mask);
}

Status run_get(Context& context, const CopyOptions& options) {
  if (options.paths.size() != 2) {
    return Error{Errc::kUsage, "give the path on the nodes and the folder here",
                 "paddlectl get /var/log/syslog logs"};
  }
  if (options.paths[1].empty()) {
    return Error{Errc::kUsage, "the name of the folder here is empty",
                 "the current folder is `.`; perhaps a variable is not set"};
  }
  PADDLE_TRY(const ClusterSpec cluster, choose_cluster(context.directory, options.cluster));
  PADDLE_TRY_STATUS(check_node_path(cluster, options.paths[0], false));
  PADDLE_TRY(const std::vector<std::size_t> nodes, choose_nodes(context, cluster, options.on));
  const fs::path asked = (fs::path(options.paths[0]) / "").lexically_normal().parent_path();
  const std::string name = asked.filename() == ".." ? "" : asked.filename().string();
  const std::string staging = staging_folder(context);
  const fs::path local = fs::path(context.directory) / options.paths[1];
  for (const std::size_t node : nodes) {
    PADDLE_TRY_STATUS(
        check_output_folder(context, local.string(), cluster.nodes[node].spec.name, kOtherFolder));
  }
  DiskRoom room(local, shown_path(context, local.string()));
  const std::uint32_t mode_kept = without_umask();
  std::mutex noting;
  ClusterSession session = ClusterSession::unconnected(cluster, nodes);
  return copy_on_each(context, session, [&](Member& member, CopyCounts& report) -> Status {
    remote::CopyTree tree;
    const auto taken = member.client->import_from(options.paths[0], staging, tree);
    Status fetched;
    // A path such as "~" or ".." contains no name; then the node chooses it.
    const bool is_named = !name.empty() && name != "." && name != "~";
    if (taken && is_named) fetched = check_given(member, tree, name);
    if (taken && fetched)
      fetched = fetch_staged(context, member, tree, staging, local, mode_kept, room);
    const Status removed = member.client->remove(staging);
    if (!taken) return with_pattern_hint(taken.error(), options.paths[0]);
    if (fetched) {
      report.files = taken->files();
      report.bytes = report.bytes_moved = taken->bytes();
    }
    report.gone = taken->gone();
    report.left_out = taken->left_out();
    const std::lock_guard lock(noting);
    note_left_out(context, taken->left_out(),
                  {taken->left_out_names().begin(), taken->left_out_names().end()},
                  "node " + member.spec.name + ": ");
    if (fetched && removed && taken->unreadable() > 0) {
      report.unreadable = taken->unreadable();
      return unreadable(member.spec.name, *taken);
    }
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
