#include "tests/support/files/memory_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/fd.h"

namespace paddle::test {
namespace {

Error error_of(int number, const std::string& what, Errc code = Errc::kResource) {
  errno = number;
  return system_error(code, what);
}

void add_text(const Tree& tree, std::size_t number, const std::string& path, std::string& text) {
  const Node& node = tree.nodes[number];
  text += fmt::format("{} {} {}\n", path, node.is_directory ? "directory" : "file", node.content);
  for (const auto& [name, child] : node.entries) add_text(tree, child, path + "/" + name, text);
}

class MemoryInputFile final : public snapshot::InputFile {
 public:
  explicit MemoryInputFile(const std::string& content) : content_(content) {}
  std::uint64_t size() const override { return content_.size(); }
  Status read(std::span<std::byte> into) override {
    if (into.size() > content_.size() - offset_) {
      return Error{Errc::kUnreachable, "closed by peer"};
    }
    std::memcpy(into.data(), content_.data() + offset_, into.size());
    offset_ += into.size();
    return {};
  }

 private:
  std::string content_;
  std::size_t offset_ = 0;
};

}  // namespace

class MemoryOutputFile final : public snapshot::OutputFile {
 public:
  MemoryOutputFile(MemoryFiles& files, std::size_t node, std::string path)
      : files_(files), node_(node), path_(std::move(path)) {}

  // A write that fails has written a part.
  Status append(ByteSpan data) override {
    const Status attempted = files_.attempt_to_grow("write " + path_);
    std::string text(reinterpret_cast<const char*>(data.data()), data.size());
    if (!attempted) text.resize(text.size() / 2);
    files_.tree_.nodes[node_].content += text;
    files_.operations_.push_back(
        {Operation::Kind::kWrite, "write " + path_, {}, node_, std::move(text)});
    return attempted;
  }
  Status sync() override {
    const Status attempted = files_.attempt("sync " + path_);
    const auto kind = attempted ? Operation::Kind::kSync : Operation::Kind::kFailedSync;
    files_.operations_.push_back({kind, "sync " + path_, {}, node_});
    return attempted;
  }

 private:
  MemoryFiles& files_;
  std::size_t node_;
  std::string path_;
};

class MemoryDirectory final : public snapshot::Directory {
 public:
  MemoryDirectory(MemoryFiles& files, std::size_t node, std::string path)
      : files_(files), node_(node), path_(std::move(path)) {}

  Result<std::unique_ptr<snapshot::OutputFile>> create(const std::string& name) override {
    std::string path = path_ + "/" + name;
    PADDLE_TRY_STATUS(files_.attempt_to_grow("create " + path));
    if (files_.tree_.nodes[node_].entries.contains(name)) return error_of(EEXIST, "create " + path);
    const std::size_t made = files_.add_node(false);
    files_.apply("create " + path, {{node_, name, made}});
    return std::unique_ptr<snapshot::OutputFile>(
        std::make_unique<MemoryOutputFile>(files_, made, std::move(path)));
  }
  Result<std::unique_ptr<snapshot::InputFile>> open(const std::string& path) const override {
    const auto found = files_.tree_.find(path, node_);
    if (!found) return error_of(ENOENT, "open " + path, Errc::kData);
    const Node& file = files_.tree_.nodes[*found];
    if (file.is_directory) return Error{Errc::kData, path + " is not a regular file"};
    return std::unique_ptr<snapshot::InputFile>(std::make_unique<MemoryInputFile>(file.content));
  }
  Status sync() override {
    PADDLE_TRY_STATUS(files_.attempt("sync " + path_));
    files_.operations_.push_back({Operation::Kind::kSync, "sync " + path_, {}, node_});
    return {};
  }

 private:
  MemoryFiles& files_;
  std::size_t node_;
  std::string path_;
};

std::optional<std::size_t> Tree::find(std::string_view path, std::size_t node) const {
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string name(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
    if (name.empty()) continue;
    const auto found = nodes[node].entries.find(name);
    if (found == nodes[node].entries.end()) return {};
    node = found->second;
  }
  return node;
}

std::string Tree::text() const {
  std::string text;
  add_text(*this, 0, "", text);
  return text;
}

void Tree::apply(const Operation& operation) {
  for (const NameChange& change : operation.changes) {
    auto& entries = nodes[change.directory].entries;
    if (change.node) {
      entries[change.name] = *change.node;
    } else {
      entries.erase(change.name);
    }
  }
}

void Tree::add_nodes_of(const Tree& other) {
  for (std::size_t i = nodes.size(); i < other.nodes.size(); ++i) {
    nodes.push_back({other.nodes[i].is_directory, {}, {}});
  }
}

MemoryFiles MemoryFiles::with(Tree tree) const {
  MemoryFiles files(std::move(tree));
  files.can_exchange_ = can_exchange_;
  return files;
}

MemoryFiles MemoryFiles::as_of(std::size_t end) const {
  MemoryFiles files = with(before_);
  files.tree_.add_nodes_of(tree_);
  files.operations_.assign(operations_.begin(),
                           operations_.begin() + static_cast<std::ptrdiff_t>(end));
  for (const Operation& operation : files.operations_) {
    files.tree_.apply(operation);
    files.tree_.nodes[operation.node].content += operation.data;
  }
  return files;
}

void MemoryFiles::fail(std::size_t number, int error, bool for_ever) {
  failure_ = Failure{number, error, for_ever};
  failed_.clear();
}

Status MemoryFiles::attempt(const std::string& what) {
  if (!failure_) return {};
  if (failure_->countdown > 0) {
    --failure_->countdown;
    return {};
  }
  if (failed_.empty()) failed_ = what;
  const int error = failure_->error;
  if (!failure_->for_ever) failure_.reset();
  return error_of(error, what);
}

Status MemoryFiles::attempt_to_grow(const std::string& what) {
  if (is_full_) return error_of(ENOSPC, what);
  return attempt(what);
}

Result<MemoryFiles::Place> MemoryFiles::place(const std::string& path) const {
  const std::size_t slash = path.rfind('/');
  const auto directory = tree_.find(slash == path.npos ? "" : path.substr(0, slash));
  if (!directory) return error_of(ENOENT, path);
  return Place{*directory, path.substr(slash + 1)};
}

void MemoryFiles::apply(std::string what, std::vector<NameChange> changes) {
  operations_.push_back({Operation::Kind::kNames, std::move(what), std::move(changes)});
  tree_.apply(operations_.back());
}

std::size_t MemoryFiles::add_node(bool is_directory) {
  tree_.nodes.push_back({is_directory, {}, {}});
  return tree_.nodes.size() - 1;
}

void MemoryFiles::write(const std::string& path, const std::string& content) {
  const auto node = tree_.find(path);
  PADDLE_CHECK(node.has_value());
  tree_.nodes[*node].content = content;
}

Result<std::unique_ptr<snapshot::Directory>> MemoryFiles::open_directory(const std::string& path) {
  const auto node = tree_.find(path);
  if (!node) return error_of(ENOENT, "open " + path);
  if (!tree_.nodes[*node].is_directory) return error_of(ENOTDIR, "open " + path);
  return std::unique_ptr<snapshot::Directory>(
      std::make_unique<MemoryDirectory>(*this, *node, path));
}

Result<std::string> MemoryFiles::read_file(const std::string& path, std::size_t max_bytes) {
  const auto node = tree_.find(path);
  if (!node) return error_of(ENOENT, "open " + path, Errc::kData);
  const Node& file = tree_.nodes[*node];
  if (file.is_directory || file.content.size() > max_bytes) {
    return Error{Errc::kData, path + ": not a regular file, or too large"};
  }
  return file.content;
}

Result<std::vector<std::string>> MemoryFiles::list(const std::string& path) {
  const auto node = tree_.find(path);
  if (!node) return error_of(ENOENT, "read " + path);
  if (!tree_.nodes[*node].is_directory) return error_of(ENOTDIR, "read " + path);
  std::vector<std::string> names;
  for (const auto& [name, child] : tree_.nodes[*node].entries) names.push_back(name);
  return names;
}

snapshot::EntryKind MemoryFiles::kind(const std::string& path) {
  const auto node = tree_.find(path);
  if (!node) return snapshot::EntryKind::kNone;
  return tree_.nodes[*node].is_directory ? snapshot::EntryKind::kDirectory
                                         : snapshot::EntryKind::kOther;
}

Status MemoryFiles::make_directory(const std::string& path) {
  const std::string what = "mkdir " + path;
  PADDLE_TRY_STATUS(attempt_to_grow(what));
  PADDLE_TRY(Place at, place(path));
  if (tree_.find(path)) return error_of(EEXIST, what);
  apply(what, {{at.directory, std::move(at.name), add_node(true)}});
  return {};
}

Status MemoryFiles::rename(const std::string& from, const std::string& to) {
  const std::string what = fmt::format("rename {} to {}", from, to);
  PADDLE_TRY_STATUS(attempt(what));
  const auto node = tree_.find(from);
  if (!node) return error_of(ENOENT, what);
  const auto replaced = tree_.find(to);
  if (replaced && !tree_.nodes[*replaced].entries.empty()) return error_of(ENOTEMPTY, what);
  PADDLE_TRY(Place source, place(from));
  PADDLE_TRY(Place target, place(to));
  apply(what, {{source.directory, std::move(source.name), {}},
               {target.directory, std::move(target.name), node}});
  return {};
}

bool MemoryFiles::exchange(const std::string& one, const std::string& other) {
  const std::string what = fmt::format("exchange {} and {}", one, other);
  const auto first = tree_.find(one);
  const auto second = tree_.find(other);
  if (!can_exchange_ || !first || !second || !attempt(what)) return false;
  const Place at_first = *place(one);
  const Place at_second = *place(other);
  apply(what, {{at_first.directory, at_first.name, second},
               {at_second.directory, at_second.name, first}});
  return true;
}

Status MemoryFiles::remove_all(const std::string& path) {
  if (!tree_.find(path)) return {};
  PADDLE_TRY(const Place at, place(path));
  return remove(at, path);
}

Status MemoryFiles::remove(const Place& at, const std::string& path) {
  const std::size_t node = tree_.nodes[at.directory].entries.at(at.name);
  const auto entries = tree_.nodes[node].entries;
  for (const auto& [name, child] : entries) {
    PADDLE_TRY_STATUS(remove({node, name}, path + "/" + name));
  }
  PADDLE_TRY_STATUS(attempt("remove " + path));
  apply("remove " + path, {{at.directory, at.name, {}}});
  return {};
}

}  // namespace paddle::test
