//! The commands.

mod admin;
mod counts;
mod ends;
mod handover;
mod many;
mod replicated;
mod scan;
mod set;
mod single;
mod spec;

use crate::api::register;
use redis_module::raw;

/// Makes all commands the server's. Whether it took them.
pub(crate) fn register_all(ctx: *mut raw::RedisModuleCtx) -> bool {
    register::<single::Get>(ctx)
        && register::<single::GetDel>(ctx)
        && register::<single::Cas>(ctx)
        && register::<set::Set>(ctx)
        && register::<counts::IncrBy>(ctx)
        && register::<many::Del>(ctx)
        && register::<many::Exists>(ctx)
        && register::<many::MGet>(ctx)
        && register::<many::MSet>(ctx)
        && register::<ends::Expire>(ctx)
        && register::<ends::Ttl>(ctx)
        && register::<scan::Scan>(ctx)
        && register::<admin::Len>(ctx)
        && register::<admin::Info>(ctx)
        && register::<admin::Sync>(ctx)
        && register::<admin::Check>(ctx)
        && register::<handover::Handover>(ctx)
        && register::<replicated::Slots>(ctx)
        && register::<replicated::Put>(ctx)
        && register::<replicated::Remove>(ctx)
}
