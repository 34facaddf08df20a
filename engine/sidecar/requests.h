// The requests of a program, in their order: checks them, moves rows between the memory and the
// session, and remembers which rows each pull had. proto/PROTOCOL.md, "Beside a program", lists
// them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/json_reader.h"
#include "base/result.h"
#include "engine/nn/ids.h"
#include "engine/sidecar/exchange.h"
#include "engine/sidecar/session.h"
#include "engine/sidecar/training.h"

namespace paddle::sidecar {

// The op and the fields of a request.
class Fields {
 public:
  Fields();
  // kUsage: the text is no JSON object, has no op, or a field that no request has.
  Status read(const Request& request);
  std::string_view op() const { return op_; }

  // kUsage: the field is missing, or of another kind. Numbers are whole and below 2^53.
  Result<std::uint64_t> whole(std::string_view name) const;
  Result<std::string> text(std::string_view name) const;
  Result<Range> range(std::string_view name) const;  // [offset, count]
  Result<const JsonValue*> list(std::string_view name) const;
  // `otherwise` if the field is missing. Numbers are finite.
  Result<double> number_or(std::string_view name, double otherwise) const;
  Result<std::string> text_or(std::string_view name, std::string_view otherwise) const;
  // Sets the error with which an abandon request ends the job.
  Status read_reason(Error& why) const;

 private:
  const JsonValue* find(std::string_view name) const;

  JsonReader reader_;
  std::string op_;
};

class Requests {
 public:
  // `training` is `session` if a job is trained, null if rows are only read. All references must
  // outlive the object.
  Requests(SharedMemory& memory, Session& session, Training* training)
      : memory_(memory), session_(session), training_(training) {}

  // Returns the fields of the answer.
  Result<JsonObject> answer(const Request& request);

 private:
  // Rows of a table that a pull has read.
  struct Pulled {
    std::size_t table = 0;
    bool is_test = false;
    std::vector<std::uint64_t> ids;  // sorted and unique
  };
  // One table of a pull request.
  struct Asked {
    std::size_t table = 0;
    bool is_test = false;
    std::span<const std::uint64_t> ids;
    std::span<std::uint32_t> index;
    std::span<float> room;  // for ids.size() rows
  };
  // One table of a push request: gradients by pull.
  struct Given {
    std::size_t table = 0;
    std::vector<const Pulled*> pulls;
    std::vector<std::span<const float>> gradients;
  };

  Result<JsonObject> hello(const Fields& fields);
  Result<JsonObject> pull(std::uint32_t number, const Fields& fields);
  Result<JsonObject> release(const Fields& fields);
  Result<JsonObject> train(const Fields& fields);
  Result<JsonObject> push(const Fields& fields);
  Result<JsonObject> add_state(const Fields& fields);
  Result<JsonObject> read_state(const Fields& fields);

  Result<std::size_t> table_of(std::string_view name) const;
  Result<std::vector<Asked>> asked(const Fields& fields);
  void sort_ids(const Asked& one, std::vector<std::uint64_t>& ids);
  Result<std::vector<Given>> given(const Fields& fields, std::vector<std::uint32_t>& pulls);
  const Pulled* find_pull(std::uint32_t number, std::size_t table) const;
  // Adds up the gradients of the pulls, by id.
  static void merge(const Given& given, client::SparseRows& rows);

  SharedMemory& memory_;
  Session& session_;
  Training* training_;
  Fields fields_;
  std::map<std::uint32_t, std::vector<Pulled>> pulls_;  // by number of the request
  // Gradients of the last push, which must not change before the next call, and of this one.
  Gradients pushed_, pushing_;
  std::vector<std::uint64_t> asked_ids_;  // of the table at work
  nn::TableReads reads_;
  nn::RowLookup lookup_;
};

}  // namespace paddle::sidecar
