//! The beginning and the end: loading the module, and what the server tells of its own life.

use crate::api::{
    self, Event, Level, SaveSide, Server, guard, in_ms, log, register_info, register_type, soon,
};
use crate::keeper::{self, Loading, with};
use crate::settings::Settings;
use crate::{commands, ending, figures, snapshot};
use redis_module::raw;
use std::ffi::c_int;

/// The server loads the module.
///
/// # Safety
///
/// The server calls it, with a context and `argc` strings.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: as this function's. Before this call nothing may allocate.
    let is_loaded = unsafe {
        api::initialize(ctx, c"firn") && {
            let arguments = api::arguments(ctx, argv, argc);
            let server = Server::new(ctx);
            guard(false, || load(ctx, server, &arguments))
        }
    };
    (if is_loaded { raw::REDISMODULE_OK } else { raw::REDISMODULE_ERR }) as c_int
}

/// The server wants to unload the module. It may not: clients may be blocked, and threads are at work. A server does
/// not ask at all if a module has a type, as this one does.
///
/// # Safety
///
/// None is needed.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn RedisModule_OnUnload(_ctx: *mut raw::RedisModuleCtx) -> c_int {
    raw::REDISMODULE_ERR as c_int
}

fn load(ctx: *mut raw::RedisModuleCtx, server: Server, arguments: &[Vec<u8>]) -> bool {
    let settings = match Settings::read(arguments.iter().map(Vec::as_slice)) {
        Ok(settings) => settings,
        Err(found) => {
            log(Level::Warning, &found);
            return false;
        }
    };
    let side = SaveSide { save: snapshot::save, load: snapshot::load };
    let is_known = commands::register_all(ctx)
        && register_type(ctx, c"firn-pool", snapshot::VERSION, side)
        && register_info(ctx, figures::report)
        && server.subscribe(told);
    if !is_known {
        log(
            Level::Warning,
            "the server does not take the module's commands; it needs Redis 7.0 or Valkey",
        );
        return false;
    }
    // Last: if it fails, the server removes what was registered.
    if let Err(found) = keeper::open(settings) {
        log(Level::Warning, &found);
        return false;
    }
    let opened = with(|keeper| {
        let path = keeper.settings.path.display();
        let (keys, ms) = (keeper.len(), keeper.opening_ms);
        log(Level::Notice, &format!("{path} is open after {ms:.1} ms, with {keys} keys"));
        Ok(())
    });
    soon(server, settle);
    in_ms(server, 100, ending::step);
    opened.is_ok()
}

/// What follows from the server's own life.
fn told(server: Server, event: Event) {
    let done = with(|keeper| match event {
        Event::LoadsItsOwn => {
            keeper.loading = Some(Loading::Own);
            Ok(())
        }
        Event::LoadsItsMasters => {
            keeper.loading = Some(Loading::Masters);
            keeper.replace_pool()
        }
        Event::Loaded => {
            if keeper.loading.take() == Some(Loading::Masters) && keeper.position.is_partial {
                // The master's snapshot has no part of this module, so the master has no keys of it.
                log(Level::Warning, "the master does not have the module: the pool is empty now");
                keeper.is_whole()?;
            }
            Ok(())
        }
        Event::LoadFailed => {
            keeper.loading = None;
            Ok(())
        }
        Event::IsMaster | Event::IsReplica => {
            keeper.change_role(event == Event::IsMaster);
            Ok(())
        }
        Event::Ends => {
            keeper.end_term()?;
            keeper.store.sync()?;
            Ok(())
        }
    });
    if let Err(refusal) = done {
        log(Level::Warning, &format!("after {event:?}: {refusal}"));
    }
    let _ = server;
}

/// Before the first client is answered: if the pool has what no replica can know of, replicas must copy all of it.
///
/// A server that loads its snapshot takes that one's place in the stream for its own. A replica that is at that place
/// would go on from there. But a master that was killed has made effects in its pool which neither the snapshot nor, it
/// may be, any replica has.
fn settle(server: Server) {
    let state = with(|keeper| {
        keeper.expiry.set_master(server.is_master());
        let snapshot = keeper.snapshot.take();
        let is_at_snapshot = snapshot.as_ref().is_some_and(|at| keeper.position.is_at(at));
        // A replica's place is recorded with each effect, and what it has already it skips.
        let is_ahead = snapshot.is_some() && !is_at_snapshot;
        Ok((is_ahead, keeper.position.is_own, keeper.position.is_partial))
    });
    let Ok((is_ahead, is_own, is_partial)) = state else { return };
    if server.is_master() {
        if is_ahead {
            log(Level::Notice, "the pool is ahead of the snapshot: replicas will copy all of it");
            // Its only other use is in tests of the server. There is no other way to say it.
            if let Err(error) = server.command(c"DEBUG", &["CHANGE-REPL-ID"]) {
                log(
                    Level::Warning,
                    &format!(
                        "the replication identity cannot be changed: {error}; remove the snapshot and restart"
                    ),
                );
            }
        }
        if is_partial {
            log(
                Level::Warning,
                "the pool is a part of a master's: restore a backup, or be a replica",
            );
        }
    } else if (is_own && is_ahead || is_partial) && !server.is_cluster() {
        copy_all(server);
    }
}

/// Makes this replica copy all of its master, and not go on from where its snapshot was.
fn copy_all(server: Server) {
    let field = |name| server.info(c"replication", name);
    let (Some(host), Some(port)) = (field(c"master_host"), field(c"master_port")) else { return };
    log(Level::Notice, "the pool does not fit the snapshot: all of the master is copied");
    let asked = server
        .command(c"REPLICAOF", &["NO", "ONE"])
        .and_then(|()| server.command(c"REPLICAOF", &[&host, &port]));
    if let Err(error) = asked {
        log(Level::Warning, &format!("the master cannot be asked for all of it: {error}"));
    }
}
