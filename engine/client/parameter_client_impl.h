// ParameterClient over two sets of lanes.
#pragma once

#include <atomic>
#include <vector>

#include "engine/client/dense_plan.h"
#include "engine/client/lanes.h"
#include "engine/client/parameter_client.h"
#include "engine/parameter/row_notes.h"

namespace paddle::snapshot {
class SnapshotReader;
class SnapshotWriter;
}  // namespace paddle::snapshot

namespace paddle::client {

class ParameterClientImpl final : public ParameterClient {
 public:
  ParameterClientImpl(Options options, std::vector<std::unique_ptr<net::Link>> dense,
                      std::vector<std::unique_ptr<net::Link>> sparse);

  Status join();
  Status load_snapshot(const std::string& directory) override { return load(directory, false); }
  Status resume(const std::string& directory) override { return load(directory, true); }
  Status ready() override;
  JobProgress progress() const override {
    const ClientLane& lane = (dense_.size() > 0 ? dense_ : sparse_).at(0);
    return {lane.samples(), lane.passes_finished(), lane.pass_batches()};
  }
  Status pull_dense(std::span<DenseParameter> parameters) override;
  Status pull_rows(std::span<SparseRows> rows) override { return pull_rows(rows, false); }
  Status pull_averages(std::span<DenseParameter> dense, std::span<SparseRows> rows) override;
  Status push(std::uint64_t num_samples, double cost_sum, std::span<DenseParameter> dense,
              std::span<SparseRows> sparse) override;
  Status push_dense(const PushTotals& totals, std::span<DenseParameter> dense) override;
  Status push_rows(const PushTotals& totals, std::span<SparseRows> rows) override;
  Result<PassTotals> finish_pass(const Tally& tally) override { return end_pass(tally, false); }
  Result<PassTotals> pause_pass(const Tally& tally) override { return end_pass(tally, true); }
  void ask_to_stop() override { asks_to_stop_ = true; }
  bool stop_asked() const override { return stop_asked_; }
  Status save_snapshot(const std::string& directory) override;
  Status save_delta(const std::string& directory, const std::string& base) override;
  Status leave() override;

 private:
  struct Part {
    wire::PushDense dense;
    wire::PushRows rows;
    Bytes tail;
    std::vector<ByteSpan> pieces;  // of gradients, where they lie
  };

  // Calls one of both sets of lanes after the other: all requests are out before the first answer
  // is read.
  template <class Send, class Receive>
  Status on_all(Send&& send, Receive&& receive);
  template <class Message, class Use>
  Status ask_all(FrameType type, const Message& message, FrameType answer, Use&& use);

  Status check_dense(std::span<DenseParameter> parameters, std::vector<DenseParameter*>& by_index);
  Status check_rows(std::span<const SparseRows> rows, bool has_gradients) const;
  Status pull_rows(std::span<SparseRows> rows, bool averages);
  // The answer to a pull of these rows, into their values.
  Status receive_rows(std::size_t shard, const RowFrame& rows_of, std::span<SparseRows> rows);
  Status pull_shard(std::size_t shard, std::span<DenseParameter* const> to);
  Result<std::vector<float>> pull_range(std::size_t shard, std::uint32_t plane,
                                        std::uint64_t offset, std::uint64_t count,
                                        std::uint64_t& update_count);
  std::vector<Part> dense_parts(std::size_t shard, const wire::PushPart& totals,
                                std::span<DenseParameter* const> parameters) const;
  std::vector<Part> row_parts(const std::vector<RowFrame>& frames, const wire::PushPart& totals,
                              std::span<const SparseRows> tables) const;
  Status send_part(ClientLanes& lanes, std::size_t lane, Part&& part);
  using PartLists = std::vector<std::vector<Part>>;  // by shard; empty: nothing goes to this kind
  // Dense values that come back go to `to`.
  Status push_parts(PartLists& dense, PartLists& sparse, std::span<DenseParameter* const> to);
  Status push_parts_of(std::span<ClientLanes* const> kinds, PartLists& dense, PartLists& sparse,
                       std::span<DenseParameter* const> to);
  // The answer to a request for elements [offset, offset + count) of a dense shard: their values go
  // to `to`, read straight into it where that is whole. Half-written when the link fails.
  template <class Answer>
  Status receive_values(std::size_t shard, FrameType type, std::uint64_t offset,
                        std::uint64_t count, std::span<DenseParameter* const> to, Answer& answer);
  Status push_kinds(const PushTotals& counts, std::span<DenseParameter> dense,
                    std::span<SparseRows> sparse, bool with_dense, bool with_sparse);
  Result<PassTotals> end_pass(const Tally& tally, bool pauses);
  std::uint64_t width(std::uint32_t parameter) const;

  Status load(const std::string& directory, bool goes_on);
  Status load_dense(const snapshot::SnapshotReader& reader, std::uint32_t parameter,
                    bool with_state);
  Status load_rows(const snapshot::SnapshotReader& reader, std::uint32_t parameter,
                   bool with_state);
  Status save_dense(snapshot::SnapshotWriter& writer, std::uint32_t parameter);
  Status save(snapshot::SnapshotWriter writer, bool is_delta);
  Status save_rows(snapshot::SnapshotWriter& writer, std::uint32_t parameter, bool is_delta);
  // What one port has: rows, or candidates.
  Status save_rows_of(snapshot::SnapshotWriter& writer, std::size_t shard, wire::ExportRows ask);
  Status save_removed_of(snapshot::SnapshotWriter& writer, std::size_t shard, wire::ExportRows ask);
  // Of a row in PutRows and ExportedRows.
  std::uint64_t exported_bytes_per_row(std::uint32_t parameter) const;
  parameter::RowNotes notes(std::uint32_t parameter) const;

  Options options_;
  ClientLanes dense_;
  ClientLanes sparse_;
  DensePlan plan_;
  bool lends_;
  bool is_paused_ = false;
  // Two threads may push, and a third ask.
  std::atomic<bool> asks_to_stop_ = false;
  std::atomic<bool> stop_asked_ = false;
};

inline std::span<const float> floats(const Bytes& tail) {
  return {reinterpret_cast<const float*>(tail.data()), tail.size() / sizeof(float)};
}

inline bool has_values(const wire::Pushed& answer) {
  return answer.has_values();
}
inline bool has_values(const wire::DenseValues&) {
  return true;
}

// Segment heads and the ids of one frame of rows, for pulls and pushes.
template <class Message>
void put_ids(Message& message, Bytes& tail, const RowFrame& frame,
             std::span<const SparseRows> tables) {
  for (const RowRange& range : frame.ranges) {
    wire::Segment* const segment = message.add_segments();
    segment->set_parameter(tables[range.table].parameter);
    segment->set_count(range.count);
    const std::span ids(tables[range.table].ids);
    for (const RowRun& run : range.runs) append_bytes(tail, ids.subspan(run.begin, run.count));
  }
}

template <class Send, class Receive>
Status ParameterClientImpl::on_all(Send&& send, Receive&& receive) {
  for (ClientLanes* lanes : {&dense_, &sparse_}) {
    for (std::size_t i = 0; i < lanes->size(); ++i) PADDLE_TRY_STATUS(send(*lanes, i));
  }
  for (ClientLanes* lanes : {&dense_, &sparse_}) {
    for (std::size_t i = 0; i < lanes->size(); ++i) PADDLE_TRY_STATUS(receive(*lanes, i));
  }
  return {};
}

template <class Answer>
Status ParameterClientImpl::receive_values(std::size_t shard, FrameType type, std::uint64_t offset,
                                           std::uint64_t count, std::span<DenseParameter* const> to,
                                           Answer& answer) {
  const std::size_t bytes = count * sizeof(float);
  bool is_placed = false;
  // Only the awaited answer may touch the values: a late copy of another goes into its frame.
  const auto place = [&](const FrameHeader& header, std::string_view head, std::size_t tail_bytes) {
    std::vector<std::span<std::byte>> result;
    if (tail_bytes == bytes && header.type == static_cast<std::uint8_t>(type) &&
        answer.ParseFromArray(head.data(), static_cast<int>(head.size())) &&
        answer.request() == dense_.at(shard).awaited()) {
      result = places(plan_.pieces[shard], offset, count, to);
    }
    is_placed = !result.empty();
    return result;
  };
  PADDLE_TRY(const Frame frame, dense_.receive(shard, type, place));
  PADDLE_TRY_STATUS(dense_.parse(shard, frame, answer));
  if (is_placed || !has_values(answer)) return {};
  if (frame.tail.size() != bytes) return dense_.malformed(shard, "tail");
  scatter(plan_.pieces[shard], floats(frame.tail), offset, to);
  return {};
}

template <class Message, class Use>
Status ParameterClientImpl::ask_all(FrameType type, const Message& message, FrameType answer,
                                    Use&& use) {
  return on_all([&](ClientLanes& lanes, std::size_t i) { return lanes.send(i, type, message, {}); },
                [&](ClientLanes& lanes, std::size_t i) -> Status {
                  PADDLE_TRY(const Frame frame, lanes.receive(i, answer));
                  return use(lanes, i, frame);
                });
}

}  // namespace paddle::client
