// The query of a request's target.
#pragma once

#include <optional>
#include <string_view>

#include "engine/http/service.h"

namespace paddle::http {

// Names and values of "job=a%20b&now=1", decoded as browsers encode forms: '+' is a blank. A name
// without '=' has the value "". Empty if a '%' has no two hexadecimal digits behind it, if a name
// occurs twice, or if a decoded text has a control character or is not UTF-8.
std::optional<Fields> query_values(std::string_view query);

}  // namespace paddle::http
