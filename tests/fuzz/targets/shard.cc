// A shard and trainers that have the job's key and lie. Every answer must fit into its frame. The
// job may be small, or have thousands of tables, or thousands of trainers.
#include "engine/pserver/shard.h"

#include "engine/net/link.h"
#include "engine/strategy/strategy_table.h"
#include "tests/fuzz/input.h"

using namespace paddle;
using namespace paddle::pserver;

namespace {

constexpr std::size_t kRequestsMax = 60;
constexpr std::size_t kExtremeBytesMax = 64;  // a huge job is slow, so it gets a few requests only
constexpr std::uint32_t kPeersMax = 4;        // trainers that connect
constexpr std::uint32_t kTable = 2;           // parameters 0 and 1 are dense
constexpr std::uint64_t kDenseElements = 31;

bool is_extreme(fuzz::Input& input) {
  return input.rarely(4) && input.size() < kExtremeBytesMax;
}

// Two tables that are tried in depth, and up to thousands more of one float.
wire::ParameterSet make_set(fuzz::Input& input, std::uint32_t trainers) {
  constexpr std::array<const char*, 8> kMethods = {"sgd",  "momentum", "adagrad",  "adam",
                                                   "ftrl", "rmsprop",  "adadelta", "adamax"};
  wire::ParameterSet set;
  set.set_num_trainers(trainers);
  set.set_dense_shards(1);
  set.set_sparse_shards(1);
  set.set_min_block_size(1);
  set.mutable_optimizer()->set_method(input.choice(kMethods));
  set.mutable_optimizer()->set_learning_rate(0.1F);
  const auto strategy = static_cast<wire::Strategy>(input.below(6));
  set.set_dense_strategy(strategy);
  set.set_sparse_strategy(strategy);
  const std::uint8_t options = input.byte();
  if ((options & 1U) != 0) set.set_staleness_max(options >> 6U);
  set.set_delta_snapshots((options & 4U) != 0);
  set.set_merge(static_cast<wire::Merge>(options >> 4U & 1U));
  if ((options & 8U) != 0) set.mutable_optimizer()->mutable_average()->set_window(0.5F);
  const auto add = [&](const std::string& name, std::uint64_t rows, std::uint64_t columns) {
    auto* const spec = set.add_parameters();
    spec->set_name(name);
    spec->add_dims(rows);
    spec->add_dims(columns);
    spec->set_sparse(rows == 0);
    spec->set_initial_std(0.1F);
    spec->set_learning_rate(1);
    return spec;
  };
  add("w", 4, 7);
  add("b", 1, 3);
  auto& table = *add("t", 0, 4)->mutable_table();
  add("s", 0, 3);
  const std::uint8_t policy = input.byte();
  if ((policy & 1U) != 0) table.set_entry_count(1 + (policy >> 6U));
  if ((policy & 2U) != 0) table.set_expire_passes(1);
  if ((policy & 4U) != 0) table.set_bytes_max(200'000);
  if ((policy & 8U) != 0) table.set_evict(true);
  if ((policy & 16U) != 0) {
    auto& shrink = *table.mutable_shrink();
    shrink.set_label("l");
    shrink.set_decay(0.9F);
    shrink.set_threshold(0.1F);
    shrink.set_click_coefficient(1);
  }
  constexpr std::array<std::uint32_t, 3> kMore = {100, 2'040, 2'045};
  for (std::uint32_t more = is_extreme(input) ? input.choice(kMore) : 0; more > 0; --more) {
    add("more" + std::to_string(more), 0, 1);
  }
  return set;
}

class Attack {
 public:
  explicit Attack(fuzz::Input& input)
      : input_(input),
        is_sparse_(input.flag()),
        trainers_(1U + input.below(3)),
        set_trainers_(is_extreme(input) ? kTrainersMax : trainers_),
        set_(make_set(input, set_trainers_)),
        shard_({.make_policy = strategy::make_update_policy,
                .is_sparse = is_sparse_,
                .num_gradient_servers = set_trainers_,
                .lost_trainer_grace = std::chrono::seconds(1),
                .bytes_max = 4U << 20U}) {}

  void run() {
    for (std::uint32_t trainer = 0; trainer < trainers_; ++trainer) join(trainer);
    if (input_.byte() % 4 != 0) {
      for (std::uint32_t trainer = 0; trainer < trainers_; ++trainer) {
        send(trainer, FrameType::kReady, wire::Ready());
      }
    }
    for (std::size_t i = 0; i < kRequestsMax && !input_.empty(); ++i) request();
  }

 private:
  struct Trainer {
    net::PeerId peer = 0;
    std::uint32_t incarnation = 0;
    std::uint64_t sequence = 0;
  };

  void join(std::uint32_t trainer) {
    trainer_[trainer].peer = ++peers_;
    wire::Join join;
    join.set_is_sparse(is_sparse_);
    wire::ParameterSet set = set_;
    if (input_.rarely(4)) set.set_seed(1 + input_.byte());  // another job's
    append_bytes(tail_, std::span<const char>(set.SerializeAsString()));
    send(trainer, FrameType::kJoin, join);
  }

  template <class Message>
  void send(std::uint32_t trainer, FrameType type, Message message) {
    message.set_request(input_.rarely(8) ? input_.number() : ++request_);
    send_head(trainer, type, message.SerializeAsString());
  }

  void send_head(std::uint32_t trainer, FrameType type, std::string head) {
    Frame frame;
    frame.header.type = static_cast<std::uint8_t>(type);
    frame.header.sender = {Role::kTrainer, trainer};
    frame.header.incarnation = trainer_[trainer].incarnation;
    frame.header.sequence = input_.rarely(8) ? input_.number() : trainer_[trainer].sequence + 1;
    frame.header.step = input_.rarely(8) ? input_.number() : shard_.step();
    frame.head = std::move(head);
    frame.tail = std::exchange(tail_, {});
    std::vector<net::Outgoing> out;
    shard_.on_frame(now_, trainer_[trainer].peer, std::move(frame), out);
    read(out);
    now_ += std::chrono::milliseconds(300);
    shard_.on_tick(now_, out);
    read(out);
  }

  void read(std::vector<net::Outgoing>& out) {
    for (const net::Outgoing& one : out) {
      const ByteSpan tail[] = {one.frame.tail, one.view};
      encode_header(one.frame.header, as_bytes(one.frame.head), tail);  // checks its sizes
      wire::Pushed pushed;
      if (one.frame.header.type != static_cast<std::uint8_t>(FrameType::kPushed)) continue;
      if (!pushed.ParseFromString(one.frame.head)) std::abort();
      for (Trainer& trainer : trainer_) {
        if (trainer.peer == one.to) trainer.sequence = pushed.last_applied();
      }
    }
    out.clear();
  }

  void floats(std::uint64_t count) {
    for (; count > 0; --count) {
      const float value = input_.real();
      append_bytes<float>(tail_, std::span(&value, 1));
    }
  }
  void number(std::uint64_t value) { append_bytes<std::uint64_t>(tail_, std::span(&value, 1)); }

  wire::PushPart part() {
    wire::PushPart part;
    part.set_parts(1);
    if (input_.rarely(32)) part.set_part(static_cast<std::uint32_t>(input_.number()));
    if (input_.rarely(32)) part.set_parts(static_cast<std::uint32_t>(input_.number()));
    part.set_samples(input_.number() + 1);
    part.set_cost_sum(input_.real());
    if (input_.rarely(32)) part.set_batches(input_.number());
    part.set_stop(input_.rarely(4));
    return part;
  }

  // Segments of both tables with ascending ids, and for a push a gradient for each row.
  template <class Message>
  void add_segments(Message& message, bool is_push) {
    std::uint64_t values = 0;
    const auto segments = input_.below(3);
    for (std::uint32_t i = 0; i < segments; ++i) {
      const std::uint32_t parameter = input_.rarely(8) ? input_.byte() : kTable + i;
      const std::uint64_t rows = input_.below(20);
      auto* const segment = message.add_segments();
      segment->set_parameter(parameter);
      segment->set_count(input_.rarely(8) ? input_.number() : rows);
      std::uint64_t id = input_.rarely(32) ? ~0ULL - 40 : 0;
      for (std::uint64_t row = 0; row < rows; ++row, id += 1U + input_.below(4)) number(id);
      values += rows * (parameter != kTable ? 3 : 4 + (has_notes() ? 2 : 0));
    }
    if (is_push) floats(values);
  }
  bool has_notes() const { return set_.parameters(kTable).table().has_shrink(); }

  void request() {
    const std::uint32_t trainer = input_.below(trainers_);
    switch (input_.below(14)) {
      case 0:
        return load(trainer);
      case 1:
        return put_dense(trainer);
      case 2:
        return put_rows(trainer);
      case 3: {
        wire::PullDense message;
        message.set_offset(input_.number());
        message.set_count(input_.number());
        message.set_plane(static_cast<std::uint32_t>(input_.number()));
        return send(trainer, FrameType::kPullDense, message);
      }
      case 4: {
        wire::PullRows message;
        add_segments(message, false);
        message.set_averages(input_.rarely(64));
        return send(trainer, FrameType::kPullRows, message);
      }
      case 5:
        return finish_pass(trainer);
      case 6: {
        wire::ExportRows message;
        message.set_parameter(kTable + input_.below(2));
        message.set_cursor(input_.number());
        message.set_rows_max(input_.number());
        message.set_mode(static_cast<wire::ExportMode>(input_.below(6)));
        return send(trainer, FrameType::kExportRows, message);
      }
      case 7:
        if (input_.rarely(64)) return send(trainer, FrameType::kLeave, wire::Leave());
        if (input_.rarely(8)) return send(trainer, FrameType::kBusy, wire::Busy());
        return send(trainer, FrameType::kReady, wire::Ready());
      case 8: {
        std::vector<net::Outgoing> out;
        shard_.on_disconnect(now_, trainer_[trainer].peer, out);
        read(out);
        if (input_.flag()) ++trainer_[trainer].incarnation;
        if (input_.rarely(64)) return;  // lost
        return join(trainer);
      }
      case 9: {
        const auto type = static_cast<FrameType>(input_.byte());
        return send_head(trainer, type, std::string(input_.text(input_.byte())));
      }
      default:
        return push(trainer);
    }
  }

  void load(std::uint32_t trainer) {
    wire::LoadBegin message;
    message.set_step(input_.number());
    message.set_passes_finished(input_.number());
    message.set_samples(input_.number());
    constexpr std::array<std::uint32_t, 4> kCounts = {0, 0, 0, 2 * kTrainersMax};
    const std::uint32_t count = input_.flag() ? set_trainers_ : input_.choice(kCounts);
    const std::uint64_t cursor = input_.number();
    for (std::uint32_t i = 0; i < count; ++i) message.add_cursors(cursor);
    if (input_.flag()) {
      for (std::uint32_t i = 0; i < count; ++i) message.add_pass_batches(cursor);
    }
    send(trainer, FrameType::kLoadBegin, message);
  }

  void put_dense(std::uint32_t trainer) {
    wire::PutDense message;
    const std::uint64_t count = input_.below(32);
    message.set_offset(input_.number());
    message.set_count(count);
    message.set_plane(static_cast<std::uint32_t>(input_.number()));
    message.set_update_count(input_.number());
    floats(count);
    send(trainer, FrameType::kPutDense, message);
  }

  void put_rows(std::uint32_t trainer) {
    wire::PutRows message;
    const std::uint64_t rows = input_.below(6);
    const std::uint32_t parameter = kTable + input_.below(2);
    const table::SparseTable* const table = shard_.sparse(parameter);
    const std::uint32_t state_width = table == nullptr ? 1 : table->state_width();
    message.set_parameter(parameter);
    message.set_count(rows);
    message.set_state_width(state_width);
    for (std::uint64_t i = 0; i < rows; ++i) {
      number(input_.number());  // id
      number(input_.number());  // marks
      floats((parameter == kTable ? 4 : 3) * (1 + state_width));
      if (parameter == kTable && has_notes()) floats(2);  // shows and clicks
    }
    send(trainer, FrameType::kPutRows, message);
  }

  void push(std::uint32_t trainer) {
    if (is_sparse_) {
      wire::PushRows message;
      *message.mutable_part() = part();
      add_segments(message, true);
      return send(trainer, FrameType::kPushRows, message);
    }
    wire::PushDense message;
    *message.mutable_part() = part();
    const std::uint64_t count = input_.rarely(32) ? input_.below(40) : kDenseElements;
    message.set_count(count);
    if (input_.rarely(16)) message.set_offset(input_.number());
    floats(count);
    send(trainer, FrameType::kPushDense, message);
  }

  void finish_pass(std::uint32_t trainer) {
    wire::FinishPass message;
    message.set_pass(input_.number());
    message.set_counts(input_.below(4));
    message.set_sums(input_.below(2));
    message.set_pause(input_.rarely(64));
    for (std::uint64_t i = 0; i < message.counts() + message.sums(); ++i) number(input_.number());
    send(trainer, FrameType::kFinishPass, message);
  }

  fuzz::Input& input_;
  bool is_sparse_;
  std::uint32_t trainers_;      // connect
  std::uint32_t set_trainers_;  // of the job
  wire::ParameterSet set_;
  Shard shard_;
  TimePoint now_;
  Bytes tail_;  // of the next request
  std::array<Trainer, kPeersMax> trainer_;
  net::PeerId peers_ = 0;
  std::uint64_t request_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  Attack(input).run();
  return 0;
}
