//! Values in place, as Python's `memoryview` shows them.
//!
//! The stable interface has buffers only from Python 3.11 on, and this package serves 3.9. What is used here is older:
//! `PyType_FromSpec` takes the slot of `bf_getbuffer` since 3.9, and `PyBuffer_FillInfo` has had its signature since
//! 3.0. A `Py_buffer` is only passed on, so its layout does not matter.

use crate::keeper::Held;
use pyo3::ffi::{self, PyObject, PyType_Slot, PyType_Spec, PyTypeObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyMemoryView, PyType};
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

unsafe extern "C" {
    fn PyBuffer_FillInfo(
        view: *mut c_void,
        exporter: *mut PyObject,
        start: *mut c_void,
        len: ffi::Py_ssize_t,
        is_read_only: c_int,
        flags: c_int,
    ) -> c_int;
}

/// A value, and the handle of its store, which is to be closed after it.
type HeldOf = (Held, Py<PyAny>);

/// The object behind a `memoryview`. Each view has a reference to it, so it is deallocated when the last one is
/// released.
#[repr(C)]
struct Exporter {
    base: PyObject,
    /// From a `Box`; null if somebody makes such an object without a value.
    held: *mut HeldOf,
}

unsafe extern "C" fn get_buffer(this: *mut PyObject, view: *mut c_void, flags: c_int) -> c_int {
    // SAFETY: Python calls this with an object of the type that has it in a slot, of which `Exporter` is the layout.
    // Its box lives until the object is deallocated.
    let held = unsafe { (*this.cast::<Exporter>()).held.as_ref() };
    let (start, len) =
        held.map_or((null_mut(), 0), |(held, _)| (held.start().cast_mut().cast(), held.len()));
    // A value has at most 256 MiB.
    let len = ffi::Py_ssize_t::try_from(len).unwrap_or(0);
    // SAFETY: `view` is a `Py_buffer` of the caller. The bytes stay in place, and nobody changes them, until `held` is
    // dropped; the view gets a reference to `this`, which has it. It is read-only, so nobody writes through the
    // pointer.
    unsafe { PyBuffer_FillInfo(view, this, start, len, 1, flags) }
}

unsafe extern "C" fn deallocate(this: *mut PyObject) {
    // SAFETY: Python calls this once, for an object of this type that nobody refers to any more. So nobody reads the
    // bytes, and the box is not used after this. The type is one on the heap: each of its objects has a reference to
    // it.
    unsafe {
        let exporter = this.cast::<Exporter>();
        let held = std::mem::replace(&mut (*exporter).held, null_mut());
        if !held.is_null() {
            drop(Box::from_raw(held));
        }
        let of = ffi::Py_TYPE(this);
        let free = ffi::PyType_GetSlot(of, ffi::Py_tp_free);
        // SAFETY: what is in this slot of a type is such a function, and inherited if nobody sets it.
        let free: ffi::freefunc = std::mem::transmute(free);
        free(this.cast());
        ffi::Py_DECREF(of.cast());
    }
}

/// The exporter's type.
fn exporter(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let made = TYPE.get_or_try_init(py, || -> PyResult<Py<PyType>> {
        let mut slots = [
            PyType_Slot { slot: ffi::Py_tp_dealloc, pfunc: deallocate as *mut c_void },
            PyType_Slot { slot: ffi::Py_bf_getbuffer, pfunc: get_buffer as *mut c_void },
            PyType_Slot { slot: 0, pfunc: null_mut() },
        ];
        let mut spec = PyType_Spec {
            name: c"firndex._firndex.Held".as_ptr(),
            basicsize: size_of::<Exporter>() as c_int,
            itemsize: 0,
            flags: ffi::Py_TPFLAGS_DEFAULT as c_uint,
            slots: slots.as_mut_ptr(),
        };
        // SAFETY: the slots end with a null one, their functions have the signatures of their slots, and the name lives
        // as long as the program. Python copies the rest.
        let made = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&mut spec)) }?;
        Ok(made.cast_into::<PyType>()?.unbind())
    })?;
    Ok(made.bind(py))
}

/// A `memoryview` of the value.
pub(crate) fn memoryview<'py>(
    py: Python<'py>,
    held: Held,
    store: Py<PyAny>,
) -> PyResult<Bound<'py, PyMemoryView>> {
    let of = exporter(py)?.as_ptr().cast::<PyTypeObject>();
    // SAFETY: the type is ready. Python allocates an object of it, with zeros behind the base.
    let object = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_GenericAlloc(of, 0)) }?;
    // SAFETY: the object is new, nobody else has it, and `Exporter` is its layout. What is replaced is null.
    unsafe { (*object.as_ptr().cast::<Exporter>()).held = Box::into_raw(Box::new((held, store))) };
    PyMemoryView::from(&object)
}
