// What differs in the configurations of two nginx nodes that ask the same logs.
#pragma once

#include "findings.hpp"
#include "nginx_settings.hpp"

namespace sliding_log::tool {

/// Names each difference. One that is not safe while a change is rolled out node by node is a warning.
void compareNginx(Findings& findings, const NginxSettings& here, const NginxSettings& there);

}  // namespace sliding_log::tool
