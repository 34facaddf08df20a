// A file system in memory that records every change, for crash_states.h, and fails where it is
// told to.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/snapshot/file_system.h"

namespace paddle::test {

struct Node {
  bool is_directory = false;
  std::string content;                         // of a file
  std::map<std::string, std::size_t> entries;  // of a directory: nodes by name
};

// A name of a directory and the node that it is given; none when it is removed.
struct NameChange {
  std::size_t directory = 0;
  std::string name;
  std::optional<std::size_t> node;
};

struct Operation {
  enum class Kind { kNames, kWrite, kSync, kFailedSync };
  Kind kind = Kind::kNames;
  std::string what;                 // "rename /job/a to /job/b"
  std::vector<NameChange> changes;  // of kNames, all at once
  std::size_t node = 0;             // of the others
  std::string data = {};            // of kWrite, at the file's end
};

// Nodes by number; the first is the root. A node without a name stays.
struct Tree {
  std::vector<Node> nodes{Node{.is_directory = true, .content = {}, .entries = {}}};

  // From the directory `node` on.
  std::optional<std::size_t> find(std::string_view path, std::size_t node = 0) const;
  // Every file and directory that has a name, with its content: equal for equal trees.
  std::string text() const;
  // Gives and removes the names that it does.
  void apply(const Operation& operation);
  // Adds those that it has more, without names and content.
  void add_nodes_of(const Tree& other);
};

class MemoryFiles final : public snapshot::FileSystem {
 public:
  // All of `tree` is durable.
  explicit MemoryFiles(Tree tree = {}) : before_(tree), tree_(std::move(tree)) {}

  const Tree& before() const { return before_; }
  const Tree& now() const { return tree_; }
  const std::vector<Operation>& operations() const { return operations_; }

  // The same after the first `end` operations only, none of which is more durable: a process was
  // killed then.
  MemoryFiles as_of(std::size_t end) const;

  // One like it with `tree`, all of which is durable.
  MemoryFiles with(Tree tree) const;

  void forbid_exchange() { can_exchange_ = false; }
  // The `number`-th change from now, counted from 0, fails with `error`; all later ones too when
  // `for_ever`.
  void fail(std::size_t number, int error, bool for_ever);
  void stop_failing() { failure_.reset(); }
  // While the disk is full, nothing is created or written. Removing and syncing succeed.
  void set_full(bool is_full) { is_full_ = is_full; }
  // The first change that failed since fail(), such as "sync /job/a"; "" when none did.
  const std::string& failed() const { return failed_; }
  void write(const std::string& path, const std::string& content);

  Result<std::unique_ptr<snapshot::Directory>> open_directory(const std::string& path) override;
  Result<std::string> read_file(const std::string& path, std::size_t max_bytes) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  snapshot::EntryKind kind(const std::string& path) override;
  Status make_directory(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  bool exchange(const std::string& one, const std::string& other) override;
  Status remove_all(const std::string& path) override;

 private:
  friend class MemoryDirectory;
  friend class MemoryOutputFile;

  struct Failure {
    std::size_t countdown;
    int error;
    bool for_ever;
  };
  struct Place {
    std::size_t directory;
    std::string name;
  };

  // Comes before each change; an error when it is to fail.
  Status attempt(const std::string& what);
  Status attempt_to_grow(const std::string& what);
  Result<Place> place(const std::string& path) const;
  void apply(std::string what, std::vector<NameChange> changes);
  std::size_t add_node(bool is_directory);
  Status remove(const Place& place, const std::string& path);

  Tree before_;
  Tree tree_;
  std::vector<Operation> operations_;
  bool can_exchange_ = true;
  bool is_full_ = false;
  std::optional<Failure> failure_;
  std::string failed_;
};

}  // namespace paddle::test
