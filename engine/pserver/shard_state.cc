#include "engine/pserver/shard_state.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/text.h"
#include "engine/table/parameter_set.h"

namespace paddle::pserver {
namespace {

constexpr std::size_t kRefusalBytesMax = 4096;  // in its text, before escapes

}  // namespace

Refused ShardParameters::create(const wire::ParameterSet& set) {
  const std::uint32_t shards = options_.is_sparse ? set.sparse_shards() : set.dense_shards();
  if (options_.index >= shards) {
    return Refusal{
        wire::REFUSAL_PARAMETERS,
        fmt::format("this is {} port {} of the job, but the trainer expects {} such ports",
                    options_.is_sparse ? "sparse" : "dense", options_.index, shards),
        "give pservers and trainers the same ports"};
  }
  if (const Status valid = parameter::validate(set); !valid) {
    return Refusal{wire::REFUSAL_PARAMETERS, valid.error().message, valid.error().hint};
  }
  policy_ = options_.make_policy(set, options_.is_sparse);
  gradient_limit_ = parameter::gradient_limit(set);
  if (options_.is_sparse) {
    create_tables(set);
  } else if (auto refused = create_dense(set)) {
    dense_.reset();  // the next Join may be late, and gets the memory then
    return refused;
  }
  set_ = set;
  return {};
}

Refused ShardParameters::create_dense(const wire::ParameterSet& set) {
  auto table =
      table::DenseTable::create(set, options_.index, options_.bytes_max, options_.parallel);
  if (!table) return Refusal{wire::REFUSAL_LIMIT, table.error().message, table.error().hint};
  dense_ = *std::move(table);
  if (options_.loan) options_.loan->values = dense_->values();
  return {};
}

void ShardParameters::create_tables(const wire::ParameterSet& set) {
  const auto count = static_cast<std::uint32_t>(set.parameters_size());
  tables_.resize(count);
  widths_.assign(count, 0);
  push_widths_.assign(count, 0);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!set.parameters(static_cast<int>(i)).sparse()) continue;
    tables_[i] = std::make_unique<table::SparseTable>(set, i, options_.parallel, options_.preparer);
    widths_[i] = tables_[i]->width();
    push_widths_[i] = tables_[i]->push_width();
  }
}

void ShardParameters::clear_tables() {
  if (!tables_.empty()) create_tables(set());
}

void ShardParameters::begin_anew() {
  clear_tables();
  if (!dense_) return;
  dense_.reset();
  PADDLE_CHECK(!create_dense(set()));  // it had room before
}

Status ShardParameters::end_pass(wire::PassFinished& totals) {
  for (std::uint32_t parameter = 0; parameter < tables_.size(); ++parameter) {
    if (!tables_[parameter]) continue;
    table::SparseTable& table = *tables_[parameter];
    PADDLE_TRY(const std::uint64_t expired, table.end_pass());
    wire::TableStatus& status = *totals.add_tables();
    status.set_parameter(parameter);
    status.set_rows(table.rows());
    status.set_bytes(table.bytes());
    status.set_payload_bytes(table.payload_bytes());
    status.set_candidates(table.entry().candidates());
    status.set_expired(expired);
    status.set_evicted(table.take_evicted());
    status.set_shrunk(table.take_shrunk());
  }
  return {};
}

void ShardParameters::measure(ShardStatistics& statistics) const {
  statistics.rows = 0;
  for (const auto& table : tables_) statistics.rows += table ? table->rows() : 0;
  statistics.bytes = bytes();
}

std::uint64_t ShardParameters::bytes() const {
  std::uint64_t held = dense_ ? dense_->size() * (1 + dense_->state_width()) * sizeof(float) : 0;
  for (const auto& table : tables_) held += table ? table->bytes() : 0;
  return held;
}

Refused ShardParameters::make_room(std::span<const RowSegment> segments, std::uint64_t contributors,
                                   const Membership& membership) {
  std::uint64_t held = 0;
  for (const auto& table : tables_) held += table ? table->counted_bytes() : 0;
  std::vector<std::uint64_t> ids(tables_.size(), 0);  // by table; a push may arrive in parts
  std::uint64_t most = 0;
  for (const RowSegment& segment : segments) {
    ids[segment.parameter] += segment.ids.size();
    most += tables_[segment.parameter]->bytes_for(segment.ids.size() * contributors);
  }
  // Pushes that wait reserved memory when they arrived, but others may have used it since.
  std::vector<std::uint64_t> waiting(tables_.size(), 0);
  for (const Trainer& trainer : membership.trainers()) {
    if (!trainer.has_complete_push()) continue;
    for (const RowSegment& segment : trainer.push->segments()) {
      waiting[segment.parameter] += segment.ids.size();
    }
  }
  for (std::uint32_t parameter = 0; parameter < ids.size(); ++parameter) {
    if (ids[parameter] == 0) continue;
    const std::uint64_t count = ids[parameter] * contributors + waiting[parameter];
    if (const Status got = tables_[parameter]->reserve(count); !got) {
      return Refusal{wire::REFUSAL_LIMIT, got.error().message, got.error().hint};
    }
    if (ids[parameter] * contributors <= tables_[parameter]->room()) continue;
    if (auto refused = check_table(parameter, segments, contributors)) return refused;
  }
  if (held + most <= options_.bytes_max) return {};
  return check_port(held, segments, contributors);
}

// For a table near its own bytes_max: counts the rows that are really new.
Refused ShardParameters::check_table(std::uint32_t parameter, std::span<const RowSegment> segments,
                                     std::uint64_t contributors) const {
  const table::SparseTable& table = *tables_[parameter];
  std::uint64_t absent = 0;
  for (const RowSegment& segment : segments) {
    if (segment.parameter == parameter) absent += table.count_absent(segment.ids);
  }
  if (absent * contributors <= table.room()) return {};
  const auto& spec = set_->parameters(static_cast<int>(parameter));
  return Refusal{
      wire::REFUSAL_LIMIT,
      fmt::format("table '{}' has {} rows on this port and would exceed its bytes_max of {} (over "
                  "{} ports)",
                  spec.name(), table.rows(), spec.table().bytes_max(), set_->sparse_shards()),
      "raise bytes_max, or remove rows: on_full = \"evict\", expire_passes"};
}

// For a port near its limit: counts the rows that are really new.
Refused ShardParameters::check_port(std::uint64_t held, std::span<const RowSegment> segments,
                                    std::uint64_t contributors) const {
  for (const RowSegment& segment : segments) {
    const table::SparseTable& table = *tables_[segment.parameter];
    held += table.bytes_for(table.count_absent(segment.ids) * contributors);
    if (held <= options_.bytes_max) continue;
    return Refusal{wire::REFUSAL_LIMIT,
                   fmt::format("table '{}' would exceed the limit of this port ({} bytes)",
                               name(segment.parameter), options_.bytes_max),
                   "use more pservers or ports_num_for_sparse"};
  }
  return {};
}

net::Outgoing& Replies::add(net::PeerId to, FrameType type, Out& out) const {
  net::Outgoing& outgoing = out.emplace_back();
  outgoing.to = to;
  FrameHeader& header = outgoing.frame.header;
  header.type = static_cast<std::uint8_t>(type);
  header.job_tag = options_.job_tag;
  header.sender = {Role::kPserver, options_.index};
  header.server_generation = progress_.generation;
  header.step = progress_.step;
  return outgoing;
}

void Replies::refuse(net::PeerId to, std::uint64_t request, const Refusal& refusal,
                     Out& out) const {
  wire::Refused message;
  message.set_request(request);
  message.set_code(refusal.code);
  // The message may quote bytes of the peer. A character that substr() divides is replaced by the
  // escapes of its bytes.
  message.set_message(escape_control(refusal.message.substr(0, kRefusalBytesMax)));
  message.set_hint(refusal.hint);
  if (refusal.code == wire::REFUSAL_ABANDONED)
    message.set_exit_code(static_cast<std::uint32_t>(refusal.exit_code));
  add(to, FrameType::kRefused, out).frame.head = message.SerializeAsString();
}

void Replies::position(Trainer& trainer, std::uint64_t request, const Membership& membership,
                       const SavepointSignals& savepoints, bool has_rounds, Out& out) const {
  wire::Position message;
  message.set_request(request);
  message.set_last_applied(trainer.last_applied);
  message.set_step(progress_.step);
  message.set_passes_finished(progress_.passes_finished);
  message.set_ready(progress_.ready);
  message.set_passes_loaded(progress_.passes_loaded);
  message.set_pauses(progress_.pauses);
  message.set_has_rounds(has_rounds);
  message.set_samples(progress_.samples);
  message.set_left(progress_.has_leaver);
  for (const std::uint64_t savepoint : savepoints.whole) message.add_savepoints(savepoint);
  for (const Trainer& each : membership.trainers()) {
    message.add_cursors(each.last_applied);
    message.add_pass_batches(each.clock);
  }
  const wire::PassOrigins& origins = progress_.origins;
  if (const auto id = static_cast<int>(trainer.id); id < origins.batches_size()) {
    wire::PassOrigin& origin = *message.mutable_origin();
    origin.set_pass(origins.pass());
    origin.set_batches(origins.batches(id));
    origin.set_records(origins.records(id));
    origin.set_data(origins.data(id));
  }
  trainer.seen_updates = progress_.updates;
  send(trainer, FrameType::kPosition, message, {}, out);
}

}  // namespace paddle::pserver
