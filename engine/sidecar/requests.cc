#include "engine/sidecar/requests.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace paddle::sidecar {
namespace {

constexpr double kWholeMax = 9007199254740992.0;  // 2^53
constexpr std::size_t kPullsMax = 4096;           // kept at once

Error misuse(std::string message, std::string hint = {}) {
  return Error{Errc::kUsage, std::move(message), std::move(hint)};
}

Result<std::uint64_t> whole_of(const JsonValue* value, std::string_view name) {
  if (value != nullptr && value->is_number()) {
    const double number = value->number();
    if (number >= 0 && number < kWholeMax && std::floor(number) == number)
      return static_cast<std::uint64_t>(number);
  }
  return misuse(fmt::format("'{}' must be a whole number from 0", name));
}

Result<Range> range_of(const JsonValue* value, std::string_view name) {
  if (value == nullptr || !value->is_list() || value->size() != 2) {
    return misuse(fmt::format("'{}' must be [offset, count]", name));
  }
  Range range;
  PADDLE_TRY(range.offset, whole_of(value->items(), name));
  PADDLE_TRY(range.count, whole_of(value->items()->next(), name));
  return range;
}

Result<std::vector<std::uint64_t>> wholes_of(const JsonValue* value, std::string_view name) {
  if (value == nullptr || !value->is_list()) {
    return misuse(fmt::format("'{}' must be a list of whole numbers", name));
  }
  std::vector<std::uint64_t> all;
  const JsonValue* item = value->items();
  for (std::size_t i = 0; i < value->size(); ++i, item = item->next()) {
    PADDLE_TRY(const std::uint64_t one, whole_of(item, name));
    all.push_back(one);
  }
  return all;
}

// The members of a table in a request.
struct Member {
  std::string_view key;
  const JsonValue* value = nullptr;
};

Result<std::vector<Member>> members_of(const JsonValue& object,
                                       std::initializer_list<std::string_view> known) {
  if (!object.is_object()) return misuse("'tables' must be a list of objects");
  std::vector<Member> members;
  const JsonValue* key = object.items();
  for (std::size_t i = 0; i < object.size(); ++i) {
    const JsonValue* const value = key->next();
    if (std::ranges::find(known, key->text()) == known.end()) {
      return misuse(fmt::format("a table of a request has no '{}'", escape_control(key->text())));
    }
    members.push_back({key->text(), value});
    key = value->next();
  }
  return members;
}

const JsonValue* find(const std::vector<Member>& members, std::string_view key) {
  const auto found = std::ranges::find(members, key, &Member::key);
  return found == members.end() ? nullptr : found->value;
}

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  return !a.empty() && !b.empty() && a.data() < b.data() + b.size() &&
         b.data() < a.data() + a.size();
}

}  // namespace

// Fields.

Fields::Fields()
    : reader_({"op", "version", "job", "tables", "pulls", "samples", "cost", "offset", "data",
               "into", "pattern", "message", "kind"}) {}

Status Fields::read(const Request& request) {
  reader_.trim();
  if (const Status read = reader_.read(request.text); !read) {
    return misuse(fmt::format("request {}: {}", request.number, read.error().message));
  }
  if (reader_.unknown()) {
    return misuse(fmt::format("request {} has an unknown field '{}'", request.number,
                              escape_control(*reader_.unknown())));
  }
  PADDLE_TRY(op_, text("op"));
  return {};
}

const JsonValue* Fields::find(std::string_view name) const {
  const auto found = std::ranges::find(reader_.keys(), name);
  return found == reader_.keys().end()
             ? nullptr
             : reader_.find(static_cast<std::size_t>(found - reader_.keys().begin()));
}

Result<std::uint64_t> Fields::whole(std::string_view name) const {
  return whole_of(find(name), name);
}

Result<double> Fields::number_or(std::string_view name, double otherwise) const {
  const JsonValue* const value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_number() || !std::isfinite(value->number())) {
    return misuse(fmt::format("'{}' must be a finite number", name));
  }
  return value->number();
}

Result<std::string> Fields::text(std::string_view name) const {
  const JsonValue* const value = find(name);
  if (value == nullptr || !value->is_text())
    return misuse(fmt::format("'{}' must be a text", name));
  return std::string(value->text());
}

Result<std::string> Fields::text_or(std::string_view name, std::string_view otherwise) const {
  return find(name) == nullptr ? std::string(otherwise) : text(name);
}

Status Fields::read_reason(Error& why) const {
  PADDLE_TRY(std::string message, text("message"));
  PADDLE_TRY(const std::string kind, text_or("kind", "failed"));
  if (kind != "failed" && kind != "unreachable") {
    return misuse("'kind' must be failed or unreachable");
  }
  why = Error{kind == "failed" ? Errc::kFailed : Errc::kUnreachable, std::move(message)};
  return {};
}

Result<Range> Fields::range(std::string_view name) const {
  return range_of(find(name), name);
}

Result<const JsonValue*> Fields::list(std::string_view name) const {
  const JsonValue* const value = find(name);
  if (value == nullptr || !value->is_list())
    return misuse(fmt::format("'{}' must be a list", name));
  return value;
}

// Requests.

Result<JsonObject> Requests::answer(const Request& request) {
  PADDLE_TRY_STATUS(fields_.read(request));
  const std::string_view op = fields_.op();
  if (op == "hello") return hello(fields_);
  if (op == "pull") return pull(request.number, fields_);
  if (op == "release") return release(fields_);
  if (op == "leave") return session_.leave();
  if (training_ != nullptr) return train(fields_);
  return misuse(fmt::format("'{}' is no request of a reader", escape_control(op)),
                "a reader has hello, pull, release and leave");
}

Result<JsonObject> Requests::train(const Fields& fields) {
  const std::string_view op = fields.op();
  if (op == "push") return push(fields);
  if (op == "finish_pass") return training_->finish_pass();
  if (op == "state") return add_state(fields);
  if (op == "save") return training_->save();
  if (op == "read_state") return read_state(fields);
  if (op == "share") {
    PADDLE_TRY(const std::string pattern, fields.text_or("pattern", ""));
    return training_->share(pattern);
  }
  if (op == "abandon") {
    Error why;
    PADDLE_TRY_STATUS(fields.read_reason(why));
    return training_->abandon(why);
  }
  return misuse(fmt::format("unknown op '{}'", escape_control(op)));
}

Result<JsonObject> Requests::hello(const Fields& fields) {
  PADDLE_TRY(const std::uint64_t version, fields.whole("version"));
  if (version != kVersion) {
    return Error{
        Errc::kVersion,
        fmt::format("the program speaks version {}, the engine version {}", version, kVersion),
        "use the module of the engine's release"};
  }
  PADDLE_TRY(const std::string job, fields.text_or("job", ""));
  PADDLE_TRY(JsonObject answer, session_.hello(job));
  JsonArray tables;
  for (const TableShape& table : session_.tables()) {
    tables.add(JsonObject().add("name", table.name).add("width", table.width));
  }
  return answer.add("tables", tables);
}

Result<std::size_t> Requests::table_of(std::string_view name) const {
  const auto tables = session_.tables();
  const auto found = std::ranges::find(tables, name, &TableShape::name);
  if (found != tables.end()) return static_cast<std::size_t>(found - tables.begin());
  std::vector<std::string_view> names;
  for (const TableShape& table : tables) names.push_back(table.name);
  const std::string near = nearest(name, names);
  std::string hint;
  if (tables.empty()) hint = "the first request must be hello";
  if (!near.empty()) hint = fmt::format("did you mean '{}'?", near);
  return misuse(fmt::format("the job has no table '{}'", escape_control(name)), hint);
}

// Pulls.

Result<std::vector<Requests::Asked>> Requests::asked(const Fields& fields) {
  PADDLE_TRY(const JsonValue* const list, fields.list("tables"));
  std::vector<Asked> all;
  const JsonValue* item = list->items();
  for (std::size_t i = 0; i < list->size(); ++i, item = item->next()) {
    PADDLE_TRY(const auto members, members_of(*item, {"table", "ids", "out", "test"}));
    const JsonValue* const name = find(members, "table");
    if (name == nullptr || !name->is_text()) return misuse("'table' must be a text");
    Asked one;
    PADDLE_TRY(one.table, table_of(name->text()));
    const TableShape& table = session_.tables()[one.table];
    if (std::ranges::find(all, one.table, &Asked::table) != all.end()) {
      return misuse(fmt::format("table '{}' occurs twice in a pull", table.name));
    }
    PADDLE_TRY(const Range ids, range_of(find(members, "ids"), "ids"));
    PADDLE_TRY(one.ids,
               memory_.at<std::uint64_t>(ids, fmt::format("the ids of table '{}'", table.name)));
    const std::string what = fmt::format("the rows of table '{}'", table.name);
    PADDLE_TRY(const std::uint64_t out, whole_of(find(members, "out"), "out"));
    PADDLE_TRY(one.index, memory_.at<std::uint32_t>({out, ids.count}, what));
    const std::uint64_t values = out + aligned(ids.count * sizeof(std::uint32_t));
    PADDLE_TRY(one.room, memory_.at<float>({values, ids.count * table.width}, what));
    const JsonValue* const test = find(members, "test");
    if (test != nullptr && !test->is_bool()) return misuse("'test' must be true or false");
    one.is_test = test != nullptr && test->truth();
    all.push_back(one);
  }
  for (const Asked& one : all) {
    for (const Asked& other : all) {
      if (!overlap(std::as_bytes(one.ids), std::as_bytes(other.index)) &&
          !overlap(std::as_bytes(one.ids), std::as_bytes(other.room)))
        continue;
      return misuse(fmt::format("the ids of table '{}' and the rows of table '{}' share memory",
                                session_.tables()[one.table].name,
                                session_.tables()[other.table].name));
    }
  }
  return all;
}

// Makes `ids` the ids of a pull, ascending and without repeats, and writes the row of each.
void Requests::sort_ids(const Asked& one, std::vector<std::uint64_t>& ids) {
  // A copy, so that nothing below depends on memory that the program may change.
  asked_ids_.assign(one.ids.begin(), one.ids.end());
  ids = asked_ids_;
  if (std::ranges::adjacent_find(ids, std::greater_equal()) == ids.end()) {
    std::iota(one.index.begin(), one.index.end(), 0U);
    return;
  }
  reads_.add(asked_ids_);
  reads_.sort_into(ids, nullptr);
  lookup_.build(ids);
  for (std::size_t i = 0; i < asked_ids_.size(); ++i) {
    one.index[i] = static_cast<std::uint32_t>(lookup_(asked_ids_[i]));
  }
}

Result<JsonObject> Requests::pull(std::uint32_t number, const Fields& fields) {
  PADDLE_TRY(const std::vector<Asked> all, asked(fields));
  if (pulls_.size() >= kPullsMax) {
    return Error{Errc::kResource, fmt::format("the rows of {} pulls are kept", kPullsMax),
                 "push or release the rows of earlier pulls"};
  }
  std::vector<Pulled> pulled;
  std::vector<client::SparseRows> rows[2];  // to train, and to test
  for (auto& half : rows) {
    half.resize(session_.tables().size());
    for (std::size_t i = 0; i < half.size(); ++i) half[i].parameter = static_cast<std::uint32_t>(i);
  }
  bool is_asked[2] = {false, false};
  for (const Asked& one : all) {
    client::SparseRows& table = rows[one.is_test ? 1 : 0][one.table];
    is_asked[one.is_test ? 1 : 0] = true;
    sort_ids(one, table.ids);
    table.placed_values = one.room.first(table.ids.size() * session_.tables()[one.table].width);
  }
  for (const bool is_test : {false, true}) {
    if (is_asked[is_test ? 1 : 0]) PADDLE_TRY_STATUS(session_.pull(rows[is_test ? 1 : 0], is_test));
  }
  JsonArray counts;
  for (const Asked& one : all) {
    std::vector<std::uint64_t>& ids = rows[one.is_test ? 1 : 0][one.table].ids;
    counts.add(JsonObject().add("rows", ids.size()));
    pulled.push_back({one.table, one.is_test, std::move(ids)});
  }
  pulls_[number] = std::move(pulled);
  return JsonObject().add("tables", counts);
}

Result<JsonObject> Requests::release(const Fields& fields) {
  PADDLE_TRY(const JsonValue* const list, fields.list("pulls"));
  PADDLE_TRY(const auto numbers, wholes_of(list, "pulls"));
  for (const std::uint64_t number : numbers) {
    if (number <= UINT32_MAX) pulls_.erase(static_cast<std::uint32_t>(number));
  }
  return JsonObject();
}

// Pushes.

const Requests::Pulled* Requests::find_pull(std::uint32_t number, std::size_t table) const {
  const auto pull = pulls_.find(number);
  if (pull == pulls_.end()) return nullptr;
  const auto found = std::ranges::find(pull->second, table, &Pulled::table);
  return found == pull->second.end() ? nullptr : &*found;
}

Result<std::vector<Requests::Given>> Requests::given(const Fields& fields,
                                                     std::vector<std::uint32_t>& pulls) {
  PADDLE_TRY(const JsonValue* const list, fields.list("tables"));
  std::vector<Given> all;
  const JsonValue* item = list->items();
  for (std::size_t i = 0; i < list->size(); ++i, item = item->next()) {
    PADDLE_TRY(const auto members, members_of(*item, {"table", "pulls", "gradients"}));
    const JsonValue* const name = find(members, "table");
    if (name == nullptr || !name->is_text()) return misuse("'table' must be a text");
    Given one;
    PADDLE_TRY(one.table, table_of(name->text()));
    const TableShape& table = session_.tables()[one.table];
    if (std::ranges::find(all, one.table, &Given::table) != all.end()) {
      return misuse(fmt::format("table '{}' occurs twice in a push", table.name));
    }
    PADDLE_TRY(const auto numbers, wholes_of(find(members, "pulls"), "pulls"));
    PADDLE_TRY(const auto offsets, wholes_of(find(members, "gradients"), "gradients"));
    if (numbers.size() != offsets.size()) {
      return misuse(fmt::format("table '{}' has {} pulls and {} gradients", table.name,
                                numbers.size(), offsets.size()));
    }
    for (std::size_t k = 0; k < numbers.size(); ++k) {
      const auto number = static_cast<std::uint32_t>(numbers[k]);
      const Pulled* const pulled = numbers[k] == number ? find_pull(number, one.table) : nullptr;
      if (pulled == nullptr || pulled->is_test) {
        return misuse(fmt::format("request {} {} of table '{}'", numbers[k],
                                  pulled == nullptr ? "is no pull, or is released," : "was a test",
                                  table.name),
                      "push the gradients of rows that were pulled to train, once");
      }
      PADDLE_TRY(const auto gradients,
                 memory_.at<float>({offsets[k], pulled->ids.size() * table.width},
                                   fmt::format("the gradients of table '{}'", table.name)));
      one.pulls.push_back(pulled);
      one.gradients.emplace_back(gradients);
      pulls.push_back(number);
    }
    all.push_back(std::move(one));
  }
  return all;
}

void Requests::merge(const Given& given, client::SparseRows& rows) {
  if (given.pulls.empty()) return;
  if (given.pulls.size() == 1) {
    rows.ids = given.pulls[0]->ids;
    rows.gradients.assign(given.gradients[0].begin(), given.gradients[0].end());
    return;
  }
  for (const Pulled* pulled : given.pulls) {
    rows.ids.insert(rows.ids.end(), pulled->ids.begin(), pulled->ids.end());
  }
  std::size_t floats = 0;
  for (const auto gradients : given.gradients) floats += gradients.size();
  const std::size_t width = rows.ids.empty() ? 0 : floats / rows.ids.size();
  nn::sort_unique(rows.ids);
  rows.gradients.assign(rows.ids.size() * width, 0);
  for (std::size_t k = 0; k < given.pulls.size(); ++k) {
    std::size_t row = 0;
    const float* from = given.gradients[k].data();
    for (const std::uint64_t id : given.pulls[k]->ids) {
      while (rows.ids[row] != id) ++row;
      float* const to = rows.gradients.data() + row * width;
      for (std::size_t i = 0; i < width; ++i) to[i] += *from++;
    }
  }
}

Result<JsonObject> Requests::push(const Fields& fields) {
  PADDLE_TRY(const std::uint64_t samples, fields.whole("samples"));
  PADDLE_TRY(const double cost, fields.number_or("cost", 0));
  std::vector<std::uint32_t> pulls;
  PADDLE_TRY(const std::vector<Given> all, given(fields, pulls));
  pushing_.resize(session_.tables().size());
  for (std::size_t i = 0; i < pushing_.size(); ++i) {
    pushing_[i].parameter = static_cast<std::uint32_t>(i);
    pushing_[i].ids.clear();
    pushing_[i].gradients.clear();
  }
  for (const Given& one : all) merge(one, pushing_[one.table]);
  PADDLE_TRY(JsonObject answer, training_->push(samples, cost, pushing_));
  pushed_.swap(pushing_);
  for (const std::uint32_t number : pulls) pulls_.erase(number);
  return answer;
}

// The program's state.

Result<JsonObject> Requests::add_state(const Fields& fields) {
  PADDLE_TRY(const std::uint64_t offset, fields.whole("offset"));
  PADDLE_TRY(const Range range, fields.range("data"));
  PADDLE_TRY(const auto bytes, memory_.at<char>(range, "the state"));
  PADDLE_TRY_STATUS(training_->state().add(offset, bytes));
  return JsonObject();
}

Result<JsonObject> Requests::read_state(const Fields& fields) {
  PADDLE_TRY(const std::uint64_t offset, fields.whole("offset"));
  PADDLE_TRY(const Range range, fields.range("into"));
  PADDLE_TRY(const auto into, memory_.at<char>(range, "the state"));
  PADDLE_TRY(const std::size_t bytes, training_->state().read(offset, into));
  return JsonObject().add("bytes", bytes);
}

}  // namespace paddle::sidecar
