// The savepoints of a simulated job, for its invariants: what each port was at each of them, and
// which of them must outlive its process.
#pragma once

#include <map>

#include "tests/sim/model.h"
#include "tests/sim/shard_disk.h"

namespace paddle::sim {

class SavepointRecords {
 public:
  // All that a port is, as one number, at a step.
  struct State {
    std::uint64_t step = 0;
    std::uint64_t hash = 0;
    bool operator==(const State&) const = default;
  };

  explicit SavepointRecords(const Model& model) : model_(model), ports_(model.shards()) {}

  void on_begin(std::uint32_t shard, std::uint64_t savepoint, State state);
  // As the port knows them now; "" or what is wrong.
  void set_whole(std::uint32_t shard, std::vector<std::uint64_t> whole);
  // The savepoints that the port lists to trainer 0, which chooses one.
  void set_listed(std::uint32_t shard, std::vector<std::uint64_t> savepoints) {
    ports_[shard].listed = std::move(savepoints);
  }
  // After a new incarnation has opened its savepoints: "" or what is lost.
  std::string on_opened(std::uint32_t shard, const std::vector<std::uint64_t>& whole);
  void on_read(std::uint32_t shard, std::uint64_t savepoint) { ports_[shard].read = savepoint; }
  // A port has gone back: "" or why it is not what it was at the savepoint, or which newer
  // savepoint it could have gone back to.
  std::string check_gone_back(std::uint32_t shard, State now);
  // All ports that have lost their parameters could go back to savepoints now.
  bool has_rollback() const;
  void on_anew(std::uint32_t shard);  // a port has begun without a savepoint

  std::uint64_t whole_savepoints() const { return whole_savepoints_; }
  std::uint64_t common_savepoints() const { return common_savepoints_; }

 private:
  struct Port {
    std::map<std::uint64_t, State> states;  // by savepoint, of the newest that began
    std::vector<std::uint64_t> whole, listed;
    std::uint64_t read = 0;
  };
  void note_common();
  std::uint64_t newest_listed(std::uint32_t shard) const;

  const Model& model_;
  std::vector<Port> ports_;
  std::uint64_t newest_common_ = 0;  // of the ports in rounds
  std::uint64_t whole_savepoints_ = 0;
  std::uint64_t common_savepoints_ = 0;
};

}  // namespace paddle::sim
