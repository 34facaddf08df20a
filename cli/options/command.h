// A subcommand of paddlectl as a row of a table: its words, its options and what it runs.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "cli/cluster/context.h"
#include "cli/options/option.h"

namespace paddle::cli {

// A command about to run: options still to be read, and the call that uses them. The result's
// error is printed by the caller; its code is the exit code.
struct Invocation {
  OptionList options;
  std::function<Status(Context&)> run;
};

struct Command {
  std::string_view name;
  std::string_view summary;   // an imperative or a noun phrase
  std::string_view examples;  // indented lines
  Invocation (*invoke)();
  std::string_view alias = {};
};

// `Options` holds the values; list_options says where the command line puts them.
template <class Options>
Invocation invocation(OptionList (*list_options)(Options&),
                      Status (*run)(Context&, const Options&)) {
  const auto options = std::make_shared<Options>();
  return {list_options(*options),
          [options, run](Context& context) { return run(context, *options); }};
}

inline Invocation invocation(Status (*run)(Context&)) {
  return {{}, run};
}

}  // namespace paddle::cli
