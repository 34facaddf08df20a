// The savepoints of a shard (snapshot/savepoint_store.h): decides when one begins, copies it while
// updates go on, and restores the shard from one. A savepoint's number is the shard's updates and
// ends of passes before it, and one more: in rounds it is the same on all shards.
#pragma once

#include "engine/pserver/pass_end.h"

namespace paddle::pserver {

class Savepoints {
 public:
  Savepoints(ShardState& state, PassEnd& pass_end) : state_(state), pass_end_(pass_end) {}

  // Called once the parameters are created. If the store cannot be opened, logs that and makes no
  // savepoints.
  void open();

  // Called when the parameters are in place, after an update, and after a pass: begins a savepoint
  // if one is due.
  void on_ready(bool went_back);
  void on_update();
  void on_pass_end();
  // Whether the pass may end. Trainers that go back repeat the ends of passes, of which shards
  // remember a few. So where shards may be in different passes, a pass ends only when a savepoint
  // of it is whole. If the disk fails, passes end without one, and savepoints from too many passes
  // ago are deleted.
  bool may_end_pass() const;
  // Copies a part of the savepoint in progress; called between two frames.
  void copy();
  void on_tick(TimePoint now);

  // Restores the shard from a whole savepoint, before the trainers join again. After an error the
  // shard's parameters are unusable.
  Status go_back(std::uint64_t savepoint);
  // Discards what go_back() restored or trainer 0 loaded, and begins anew: an earlier process of
  // trainer 0 may have begun with values that its next process does not want.
  void begin_anew();

 private:
  enum class Record : std::uint32_t { kState = 1, kDense = 2, kTable = 3 };

  bool is_under_way() const { return is_copying_ || is_unwritten_; }
  std::uint64_t number() const {
    return state_.progress.step + state_.progress.passes_finished + 1;
  }
  void track();
  bool forget_all();  // deletes all savepoints; false after an error, which ends the store
  void forget_uncommon();
  void begin();
  void add_dense();
  void copy_part();
  bool copy_rows();  // false when there are no more rows
  // A record of a table begins with the parameter's index.
  void add_rows(std::uint32_t parameter, ByteSpan rows);
  void note_whole();
  void forget_old();
  wire::SavepointState state() const;
  Status restore(Record kind, ByteSpan payload, wire::SavepointState& state);
  Status restore_rows(ByteSpan payload);
  Status restore_state(const wire::SavepointState& savepoint);

  ShardState& state_;
  PassEnd& pass_end_;
  std::unique_ptr<snapshot::SavepointStore> store_;
  Duration period_{};
  Duration wait_{};                    // until the next savepoint, from when the last began
  bool is_leader_ = false;             // announces the savepoints in rounds
  bool savepoints_each_pass_ = false;  // see may_end_pass()

  bool is_copying_ = false;
  bool is_idle_ = false;               // no frame since the last tick
  std::size_t table_ = 0;              // index of the table that is being copied
  bool is_unwritten_ = false;          // the savepoint is copied, and not on the disk yet
  bool is_full_ = true;                // the savepoint in progress is full, or else the next
  std::uint64_t number_ = 0;           // the newest savepoint's
  std::uint64_t passes_ = 0;           // passes finished before it
  std::uint64_t needed_ = 0;           // the oldest savepoint that a rollback may need
  std::uint64_t gone_back_to_ = 0;     // the savepoint of the last rollback
  std::uint64_t whole_passes_ = 0;     // passes finished before the newest whole savepoint
  std::optional<TimePoint> begun_at_;  // the first tick after the newest savepoint began
  std::uint64_t full_bytes_ = 0;       // size of the last full savepoint
  std::uint64_t changed_bytes_ = 0;    // size of the savepoints that follow it
};

}  // namespace paddle::pserver
