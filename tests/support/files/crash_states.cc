#include "tests/support/files/crash_states.h"

#include <algorithm>
#include <span>

#include "base/rng.h"

namespace paddle::test {
namespace {

using Kind = Operation::Kind;

struct FileData {
  std::string written;
  std::size_t synced = 0;
  bool has_failed = false;
};

std::size_t blocks_of(std::size_t bytes) {
  return (bytes + kDiskBlockBytes - 1) / kDiskBlockBytes;
}

// The things that a crash may do or leave, each with the number of ways.
class Crash {
 public:
  Crash(const MemoryFiles& files, std::size_t end)
      : files_(files), operations_(files.operations().begin(), end) {
    for (const Operation& operation : operations_) note(operation);
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      if (operations_[i].kind == Kind::kNames && !is_durable(i)) {
        uncertain_.push_back(i);
        ways_.push_back(2);
      }
    }
    for (const auto& [node, file] : data_) {
      const std::size_t from = file.synced / kDiskBlockBytes;
      const std::size_t blocks = blocks_of(file.written.size()) - from;
      ways_.push_back(file.synced == file.written.size() ? 1 : 2 * blocks + 1);
    }
  }

  // The number of ways of each choice; the last way is that nothing is lost.
  const std::vector<std::size_t>& ways() const { return ways_; }

  Tree state(std::span<const std::size_t> choice) const {
    Tree tree = files_.before();
    tree.add_nodes_of(files_.now());
    std::size_t at = 0;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      if (operations_[i].kind != Kind::kNames) continue;
      const bool is_uncertain = at < uncertain_.size() && uncertain_[at] == i;
      if (is_uncertain && choice[at++] == 0) continue;
      tree.apply(operations_[i]);
    }
    for (const auto& [node, file] : data_) {
      tree.nodes[node].content = remains(file, choice[at], ways_[at]);
      ++at;
    }
    return tree;
  }

 private:
  void note(const Operation& operation) {
    if (operation.kind == Kind::kNames) return;
    if (files_.now().nodes[operation.node].is_directory) return;
    FileData& file = data_[operation.node];
    if (operation.kind == Kind::kWrite) file.written += operation.data;
    if (operation.kind == Kind::kFailedSync) file.has_failed = true;
    if (operation.kind == Kind::kSync && !file.has_failed) file.synced = file.written.size();
  }

  bool is_durable(std::size_t index) const {
    const auto later = operations_.subspan(index + 1);
    return std::ranges::all_of(operations_[index].changes, [&](const NameChange& change) {
      return std::ranges::any_of(later, [&](const Operation& operation) {
        return operation.kind == Kind::kSync && operation.node == change.directory;
      });
    });
  }

  // The first ways cut the file off, at its synced part and at each block after; the next are zero
  // up to a block.
  static std::string remains(const FileData& file, std::size_t way, std::size_t ways) {
    if (way + 1 == ways) return file.written;
    const std::size_t blocks = ways / 2;
    const std::size_t first = file.synced / kDiskBlockBytes;
    if (way < blocks) {
      const std::size_t end = way == 0 ? file.synced : (first + way) * kDiskBlockBytes;
      return file.written.substr(0, end);
    }
    std::string rest = file.written;
    const std::size_t end = std::min((first + way - blocks + 1) * kDiskBlockBytes, rest.size());
    std::fill(rest.begin() + static_cast<std::ptrdiff_t>(file.synced),
              rest.begin() + static_cast<std::ptrdiff_t>(end), '\0');
    return rest;
  }

  const MemoryFiles& files_;
  std::span<const Operation> operations_;
  std::map<std::size_t, FileData> data_;  // by node
  std::vector<std::size_t> uncertain_;    // operations
  std::vector<std::size_t> ways_;         // of each in uncertain_, then of each in data_
};

}  // namespace

void visit_crash_states(const MemoryFiles& files, std::size_t end, std::size_t most,
                        std::uint64_t seed, const std::function<void(const Tree&)>& visit) {
  const Crash crash(files, end);
  const std::vector<std::size_t>& ways = crash.ways();
  std::size_t states = 1;
  for (const std::size_t each : ways) states = std::min(states * each, most + 1);
  std::vector<std::size_t> choice(ways.size());
  if (states <= most) {
    for (std::size_t number = 0; number < states; ++number) {
      std::size_t rest = number;
      for (std::size_t i = 0; i < ways.size(); ++i) {
        choice[i] = rest % ways[i];
        rest /= ways[i];
      }
      visit(crash.state(choice));
    }
    return;
  }
  visit(crash.state(choice));
  for (std::size_t i = 0; i < ways.size(); ++i) choice[i] = ways[i] - 1;
  visit(crash.state(choice));
  Rng rng(hash_combine(seed, end));
  for (std::size_t number = 2; number < most; ++number) {
    for (std::size_t i = 0; i < ways.size(); ++i) choice[i] = rng.below(ways[i]);
    visit(crash.state(choice));
  }
}

}  // namespace paddle::test
