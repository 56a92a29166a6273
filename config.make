# nginx has no flags for C++ alone, so they go to our objects by name.
# -Wa,-I: where .incbin finds the Lua scripts and the dashboard (src/embed.hpp). -fno-lto: link-time optimization, which
# Fedora and Ubuntu have in their flags, would assemble at last, without these paths.
for sliding_log_src in $(cd "$ngx_addon_dir" && find src -name '*.cpp'); do
    sliding_log_object="$NGX_OBJS/addon/$(basename "$(dirname "$sliding_log_src")")/$(basename "$sliding_log_src" .cpp).o"
    cat <<END >>"$NGX_MAKEFILE"
$sliding_log_object: CFLAGS += -std=c++20 -Wall -Wextra -Werror -fvisibility=hidden -fno-lto -Wa,-I$ngx_addon_dir/lua,-I$ngx_addon_dir/src/dashboard
END
done
