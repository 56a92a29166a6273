# nginx has no flags for C++ alone, so they go to our objects by name.
# -Wa,-I: where .incbin finds the Lua scripts and the dashboard (src/embed.hpp).
# -fno-lto: link-time optimization, which Fedora and Ubuntu have in their flags, would assemble at last, without these
# paths.
# -ffile-prefix-map, -Wdate-time: the same sources make the same module in any folder, at any time. The last map that
# matches counts: nginx, and a static hiredis, may be below our folder.
sliding_log_same="-ffile-prefix-map=$ngx_addon_dir=. -ffile-prefix-map=$sliding_log_root=. -ffile-prefix-map=$PWD=nginx${HIREDIS_DIR:+ -ffile-prefix-map=$HIREDIS_DIR=hiredis}"
for sliding_log_src in $sliding_log_srcs; do
    sliding_log_object="$NGX_OBJS/addon/$(basename "$(dirname "$sliding_log_src")")/$(basename "$sliding_log_src" .cpp).o"
    cat <<END >>"$NGX_MAKEFILE"
$sliding_log_object: CFLAGS += -std=c++20 -Wall -Wextra -Werror -Wdate-time -fvisibility=hidden -fno-lto $sliding_log_same -Wa,-I$ngx_addon_dir/lua,-I$ngx_addon_dir/src/dashboard
END
done
cat <<END >>"$NGX_MAKEFILE"
$NGX_OBJS/${ngx_addon_name}_modules.o: CFLAGS += $sliding_log_same
END
