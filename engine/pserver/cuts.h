// The cuts of a shard (snapshot/cut_store.h): when one begins, its copies beside the updates that
// follow, and the way back to one. A cut's number is that of the shard's updates and ends of passes
// before it, and one more: in rounds it is the same on all shards.
#pragma once

#include "engine/pserver/pass_end.h"

namespace paddle::pserver {

class Cuts {
 public:
  Cuts(ShardState& state, PassEnd& pass_end) : state_(state), pass_end_(pass_end) {}

  // For once the parameters are created. Without a store, which is logged, no cuts are made.
  void open();

  // The parameters are in place, or an update or a pass is over: a cut begins where it is time.
  void on_ready(bool went_back);
  void on_update();
  void on_pass_end();
  // Trainers that go back repeat the ends of passes, of which shards remember a few. So where
  // shards may be in different passes, a pass ends only when a cut of it is whole; while the disk
  // takes none, cuts of too many passes ago are forgotten.
  bool may_end_pass() const;
  // Copies a part of the cut that is under way, between two frames.
  void copy();
  void on_tick(TimePoint now);

  // Makes the shard what it was at a cut that is whole, for the trainers' next lives. After an
  // error its parameters are of no use.
  Status go_back(std::uint64_t cut);
  // Undoes that, or what was loaded: an earlier life of trainer 0 may have begun with values that
  // the next one does not take.
  void begin_anew();

 private:
  enum class Record : std::uint32_t { kState = 1, kDense = 2, kTable = 3 };

  bool is_under_way() const { return is_copying_ || is_unwritten_; }
  std::uint64_t number() const {
    return state_.progress.step + state_.progress.passes_finished + 1;
  }
  void track();
  bool forget_all();  // false without a store, which it may have cost
  void forget_uncommon();
  void begin();
  void add_dense();
  void copy_part();
  bool copy_rows();  // false when there are no more
  // A record of a table begins with the parameter's index.
  void add_rows(std::uint32_t parameter, ByteSpan rows);
  void note_whole();
  void forget_old();
  wire::CutState state() const;
  Status restore(Record kind, ByteSpan payload, wire::CutState& state);
  Status restore_rows(ByteSpan payload);
  Status restore_state(const wire::CutState& cut);

  ShardState& state_;
  PassEnd& pass_end_;
  std::unique_ptr<snapshot::CutStore> store_;
  Duration period_{};
  Duration wait_{};              // for the next one, from when the last began
  bool is_leader_ = false;       // announces the cuts of rounds
  bool cuts_each_pass_ = false;  // see may_end_pass()

  bool is_copying_ = false;
  bool is_idle_ = false;               // no frame since the last tick
  std::size_t table_ = 0;              // under way
  bool is_unwritten_ = false;          // all is copied, and not on the disk yet
  bool is_full_ = true;                // or is next
  std::uint64_t number_ = 0;           // of the newest cut
  std::uint64_t passes_ = 0;           // finished before it
  std::uint64_t needed_ = 0;           // the oldest cut that may be gone back to
  std::uint64_t gone_back_to_ = 0;     // a cut, the last time
  std::uint64_t whole_passes_ = 0;     // finished before the newest one that is whole
  std::optional<TimePoint> begun_at_;  // of the first tick after it began
  std::uint64_t full_bytes_ = 0;       // of the last full cut
  std::uint64_t changed_bytes_ = 0;    // of those that follow it
};

}  // namespace paddle::pserver
